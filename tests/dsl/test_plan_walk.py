"""Walks over plans: each node once, inputs first; and plans made from changed nodes."""

from dataclasses import replace

from windrow import Pipeline, from_collection
from windrow.plan import MapNode, Node, SinkNode
from windrow.plan.walk import map_steps, walk
from windrow.sinks import CollectSink


def plan() -> Pipeline:
    numbers = from_collection([1, 2, 3], element_type=int)
    doubled = numbers.map(lambda n: n * 2)
    both = doubled.union(numbers.filter(lambda n: n > 1))
    return Pipeline("p", both.sink_to(CollectSink()), doubled.sink_to(CollectSink()))


def test_a_walk_meets_each_node_once_and_inputs_before_their_readers() -> None:
    roots = [sink.node for sink in plan().sinks]

    nodes = list(walk(roots))

    assert len(nodes) == len({id(node) for node in nodes})
    places = {id(node): place for place, node in enumerate(nodes)}
    assert all(places[id(source)] < places[id(node)] for node in nodes for source in node.inputs)


def test_steps_read_from_the_changed_nodes() -> None:
    def renamed(node: Node) -> Node:
        return replace(node, name="changed") if isinstance(node, MapNode) else node

    before = plan().steps
    after = map_steps(before, renamed)

    assert [(step.id, step.index, step.inputs) for step in after] == [
        (step.id, step.index, step.inputs) for step in before
    ]
    made = {id(step.node) for step in after}
    assert all(id(source) in made for step in after for source in step.node.inputs)
    (mapped,) = [step.node for step in after if isinstance(step.node, MapNode)]
    assert mapped.name == "changed"
    assert [step.node.input for step in after if isinstance(step.node, SinkNode)][-1] is mapped
