"""Finds the pipeline that a command line names, in a file or a module of the user's."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import typing
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import FrozenImporter
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final, TypeAlias

from windrow import Pipeline
from windrow.errors import InvalidArgumentError, similar_name
from windrow_runtime.codecs.malformed import short_repr
from windrow_tools.command.failures import errors_of_file, shown_path
from windrow_tools.command.parameters import Setting, parameters_of, settings_of, values_of

Candidate: TypeAlias = "Pipeline | Callable[[], object]"
"""A pipeline of a module, or a function that makes one."""

_EXPECTED: Final = "a Pipeline, or a function that returns one and needs no arguments but texts, numbers and dates"
_NAME_A_FILE: Final = "a folder has no pipeline: name a file in it"


def add_pipeline(parser: ArgumentParser) -> None:
    """Adds the argument that names a pipeline."""
    parser.add_argument(
        "pipeline",
        metavar="FILE[:PIPELINE]",
        help="a Python file or a module, and the name in it of a pipeline, or of a function that returns one; "
        "without a name, the only one that it has",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a parameter of the function that returns the pipeline; may be given several times. The same "
        "as --NAME VALUE after --, at the end of the command",
    )
    parser.set_defaults(words=[])  # those after --


def add_partitions(parser: ArgumentParser) -> None:
    """Adds the options that divide the state of a checkpoint anew."""
    parser.add_argument("--partitions", type=int, metavar="N", help="the new number of partitions; default: as before")
    parser.add_argument(
        "--key-groups-per-partition",
        type=int,
        metavar="N",
        help="the new number of key groups of each; default: as before",
    )


def add_accepted(parser: ArgumentParser) -> None:
    """Adds the option that names steps whose changes a checkpoint accepts."""
    parser.add_argument(
        "--accept-changes",
        action="append",
        default=[],
        metavar="STEP",
        help="the id or name of a step that may take other streams than the checkpoint has; may be given several times",
    )


def add_renamed(parser: ArgumentParser) -> None:
    """Adds the option that names steps by other names than the state has."""
    parser.add_argument(
        "--renamed",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="the new name of a step or a source; may be given several times",
    )


def renamed_in(options: Namespace) -> dict[str, str]:
    """Returns the new names of steps by the old ones.

    Raises:
        InvalidArgumentError: If a pair lacks a name, or an old one is given twice.
    """
    renamed: dict[str, str] = {}
    for pair in options.renamed:
        old, equals, new = pair.partition("=")
        if not (old and equals and new) or old in renamed:
            raise InvalidArgumentError(
                "a renamed step has an old name and a new one", given=f"--renamed {pair}", expected="--renamed OLD=NEW"
            )
        renamed[old] = new
    return renamed


def chosen_pipeline(options: Namespace) -> Pipeline:
    """Returns the pipeline that a command line names, made with the parameters that it sets; see named_pipeline()."""
    return named_pipeline(options.pipeline, settings_of(options.set, options.words))


def named_pipeline(text: str, settings: Iterable[Setting] = ()) -> Pipeline:
    """Imports the file or module of ``FILE[:PIPELINE]``, and returns the pipeline; a function gets some parameters.

    Its folder comes first on ``sys.path``, as if the file were run, so that workers of Spark find its modules, too.

    Raises:
        InvalidArgumentError: If there is no such file or module, it cannot be imported, it has no such pipeline, or a
            parameter is wrong.
        WindrowError: What building the pipeline raises.
    """
    settings = [*settings]
    file, _, name = text.rpartition(":")
    if not file or not (name.isidentifier() or not name or _is_name_of(text, file)):
        file, name = text, ""  # the colon is a part of the path, or there is none
    elif not name:
        raise InvalidArgumentError("no pipeline is named after the colon", given=text, expected="FILE:PIPELINE")
    module, root = _imported(file)
    candidates = _candidates(module)
    candidates = {each: value for each, value in candidates.items() if _takes(value, settings)} or candidates
    if not name and len(candidates) == 1:
        (name,) = candidates
    if name:
        return _pipeline(module, name, file, root, candidates, settings)
    if candidates:
        raise InvalidArgumentError(
            "the file has several pipelines",
            given=file,
            expected=", ".join(f"{file}:{candidate}" for candidate in candidates),
        )
    raise InvalidArgumentError(
        "the file has no pipeline",
        given=file,
        expected=f"{_EXPECTED}, as its annotation -> Pipeline says",
        hint=f"name a function that has no annotation: {file}:FUNCTION",
    )


def _is_name_of(text: str, file: str) -> bool:
    """Returns whether what follows the last colon shall be a name in a file or a module, though it can be none."""
    is_module = all(part.isidentifier() for part in file.split("."))
    return not Path(text).exists() and (Path(file).is_file() or (is_module and not {"/", "\\"} & {*text}))


def check_beside() -> None:
    """Refuses a file that hides a module of Python's from workers of Spark, which look into the user's folder first.

    Files of names that windrow and Python import hardly ever, such as ``test.py``, harm nobody.

    Raises:
        InvalidArgumentError: If there is one in the folder of the pipeline, or in the working directory.
    """
    imported = sys.stdlib_module_names & sys.modules.keys() - {*sys.builtin_module_names}
    for folder in dict.fromkeys([sys.path[0], os.getcwd()]):
        for name in sorted(imported):
            files = Path(folder, f"{name}.py"), Path(folder, name, "__init__.py")
            file = next((file for file in files if file.is_file()), None)
            if file is not None and not FrozenImporter.find_spec(name):
                raise InvalidArgumentError(
                    "a file hides a module of Python's from the workers of Spark",
                    given=shown_path(str(file)),
                    expected=f"another name than {name}",
                )


def _imported(text: str) -> tuple[ModuleType, Path | None]:
    """Imports a file, or a module by its name; returns it, and the folder from which it is imported, if it is known."""
    path = Path(text)
    if path.suffix == ".py" or path.is_file() or len(path.parts) != 1:
        name, root = _place(path)
    else:
        name, root = text, Path.cwd()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()  # the file may be younger than Python's list of the folder
    with errors_of_file(text, None, "a package of the module cannot be imported"):
        try:
            spec = find_spec(name)
        except ModuleNotFoundError as error:
            if not name.startswith(f"{error.name}."):
                raise
            spec = None
    is_folder = spec is not None and spec.origin is None  # Python imports a folder without files, too
    if spec is None or is_folder:
        raise InvalidArgumentError(
            "there is no such file or module",
            given=text,
            expected="a Python file, or a module that the working directory or this Python has",
            hint=_NAME_A_FILE if is_folder else None,
        )
    with errors_of_file(text, root, "the file cannot be imported"):
        return importlib.import_module(name), root


def _place(path: Path) -> tuple[str, Path]:
    """Returns the name under which the file of a module is imported, and the folder that has it or its package."""
    if not path.is_file():
        raise InvalidArgumentError(
            "there is no such file",
            given=str(path),
            expected="a Python file, or the name of a module",
            hint=_NAME_A_FILE if path.is_dir() else None,
        )
    if path.suffix != ".py" or "." in path.stem:
        raise InvalidArgumentError(
            "Python imports no file of this name", given=str(path), expected="a file NAME.py, without another dot"
        )
    folder = path.absolute().parent
    names = [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    name = ".".join(names)
    imported = sys.modules.get(name)
    is_other = imported is not None and Path(getattr(imported, "__file__", None) or "") != path.absolute()
    if is_other or names[0] in sys.stdlib_module_names:
        raise InvalidArgumentError(
            "a file has the name of a module of Python's, or of one that is imported already",
            given=str(path),
            expected="another name: workers of Spark could not tell the two apart",
        )
    return name, folder


def _candidates(module: ModuleType) -> dict[str, Candidate]:
    """Returns the public pipelines of a module, and its functions that are annotated to return one, by name."""
    candidates: dict[str, Candidate] = {}
    for name, value in vars(module).items():
        is_own = isinstance(value, FunctionType) and value.__module__ == module.__name__ and _makes_pipeline(value)
        is_new = all(value is not other for other in candidates.values())
        if not name.startswith("_") and is_new and (isinstance(value, Pipeline) or is_own):
            candidates[name] = value
    return candidates


def _takes(candidate: Candidate, settings: Sequence[Setting]) -> bool:
    """Returns whether a candidate has all parameters that are set, and needs no others."""
    parameters = [] if isinstance(candidate, Pipeline) else parameters_of(candidate) or []
    needed = {parameter.name for parameter in parameters if parameter.is_needed}
    return needed <= {setting.name for setting in settings} <= {parameter.name for parameter in parameters}


def _makes_pipeline(function: FunctionType) -> bool:
    try:
        returned = typing.get_type_hints(function).get("return")
    except Exception:  # an annotation may name what is imported for type checkers alone
        returned = function.__annotations__.get("return")
    is_pipeline = returned is Pipeline or (isinstance(returned, str) and returned.rpartition(".")[2] == "Pipeline")
    return is_pipeline and parameters_of(function) is not None and not inspect.iscoroutinefunction(function)


def _pipeline(
    module: ModuleType,
    name: str,
    file: str,
    root: Path | None,
    candidates: dict[str, Candidate],
    settings: Sequence[Setting],
) -> Pipeline:
    if not hasattr(module, name):
        raise InvalidArgumentError(
            "the file has no such name",
            given=f"{file}:{name}",
            expected=", ".join(f"{file}:{candidate}" for candidate in candidates) or _EXPECTED,
            hint=similar_name(name, vars(module)),
        )
    value = getattr(module, name)
    if callable(value) and not isinstance(value, Pipeline):
        parameters = parameters_of(value)
        if parameters is None:
            raise InvalidArgumentError("the function needs arguments", given=f"{file}:{name}", expected=_EXPECTED)
        if inspect.iscoroutinefunction(value):
            raise InvalidArgumentError(
                "the function is asynchronous",
                given=f"{file}:{name}",
                expected=_EXPECTED,
                hint="define it by def, without async",
            )
        arguments = values_of(parameters, settings, f"{file}:{name}")
        with errors_of_file(file, root, f"the pipeline cannot be built: {name}() raised an error"):
            value = value(**arguments)
    elif settings:
        raise InvalidArgumentError(
            "only a function that returns a pipeline has parameters",
            given=settings[0].typed,
            expected=f"a function instead of {name}, which is {short_repr(value)}",
            where=file,
        )
    if not isinstance(value, Pipeline):
        raise InvalidArgumentError(
            "the name is not that of a pipeline", given=f"{name}, {short_repr(value)}", expected=_EXPECTED, where=file
        )
    return value
