"""Filesystems that hold data become a subsystem; what comes and goes by itself does not."""

from __future__ import annotations

from rainbow_sched.discovery.finder import Mount, discover_cluster, mounts_subsystem, parse_mounts
from rainbow_sched.model.graph import Graph, Vertex

TEXT = """\
/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
tmpfs /run tmpfs rw 0 0
nas:/home /home nfs4 rw,vers=4.2 0 0
auto.projects /projects autofs rw 0 0
nas:/p1 /projects/p1 nfs rw 0 0
mds@tcp:/fs /lustre/my\\040data lustre rw 0 0
/dev/vdb /home xfs rw 0 0
broken
"""


def test_data_is_kept_and_the_kernels_own_and_the_automatic_are_not():
    assert parse_mounts(TEXT) == (Mount("/", "ext4"), Mount("/home", "xfs"), Mount("/lustre/my data", "lustre"))
    assert [mount.shared for mount in parse_mounts(TEXT)] == [False, False, True]


def test_a_root_that_is_automatic_leaves_nothing():
    assert parse_mounts("x / autofs rw 0 0\nnas:/a /a nfs rw 0 0\n") == ()


def test_what_is_mounted_can_be_asked_for():
    graph = Graph.build([Vertex(id="c", type="cluster", name="c"), Vertex(id="n", type="node", name="n")], [("c", "n")])
    made = mounts_subsystem(graph, [Mount("/scratch", "lustre")], "n")
    [(vertex, _, hosts)] = made.items()
    assert (vertex.name, hosts) == ("/scratch", ("n",))
    assert vertex.metadata == {"path": "/scratch", "fstype": "lustre", "shared": True}
    assert mounts_subsystem(graph, [], "n") is None


def test_this_machine_is_found_the_same_twice():
    first, second = discover_cluster("here", "host"), discover_cluster("here", "host")
    assert first == second
