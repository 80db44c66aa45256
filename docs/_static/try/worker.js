// Runs programs beside the page, so that one without end can be stopped.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const started = performance.now();

async function prepare() {
  const [pyodide, windrow, run] = await Promise.all([
    loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href }),
    fetch(new URL("./windrow.zip", import.meta.url)).then((answer) => answer.arrayBuffer()),
    fetch(new URL("./run.py", import.meta.url)).then((answer) => answer.text()),
  ]);
  pyodide.unpackArchive(windrow, "zip", { extractDir: "/windrow" });
  pyodide.runPython("import sys; sys.path.insert(0, '/windrow')");
  pyodide.runPython(run);
  return pyodide.globals.get("run_program");
}

const prepared = prepare();
prepared.then(
  () => postMessage({ ready: true, milliseconds: performance.now() - started }),
  (error) => postMessage({ broken: String(error) }),
);

onmessage = async ({ data }) => {
  const runProgram = await prepared;
  const begun = performance.now();
  try {
    const answer = JSON.parse(runProgram(data.code));
    postMessage({ number: data.number, answer, milliseconds: performance.now() - begun });
  } catch (error) { // the memory is full, or the program has changed what this page needs of Python
    postMessage({ number: data.number, failed: String(error) });
  }
};
