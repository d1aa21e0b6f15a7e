"""The subsystem `mounts`: filesystems, with a flag for those that all nodes share.

Sizes are omitted, because a size query hangs if the filesystem's server is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rainbow_sched.model.graph import Graph, Subsystem, Vertex

SUBSYSTEM = "mounts"
NETWORK_TYPES = ("nfs", "nfs4", "cifs", "smb3", "afs", "cvmfs2")
PARALLEL_TYPES = ("lustre", "gpfs", "beegfs", "ceph", "panfs", "orangefs", "pvfs2", "glusterfs", "wekafs", "daos")
FUSE_TYPES = ("fuse.ceph", "fuse.sshfs", "fuse.glusterfs", "fuse.juicefs", "fuse.daos")
SHARED_TYPES = frozenset((*NETWORK_TYPES, *PARALLEL_TYPES, *FUSE_TYPES))
LOCAL_TYPES = ("ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs")
MAX_MOUNTS = 1_000  # bounds the size of the graph


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted filesystem."""

    path: str
    kind: str  # the kernel's name for its type

    @property
    def shared(self) -> bool:
        """True if other machines see the same files."""
        return self.kind in SHARED_TYPES


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Parse the data filesystems of /proc/self/mounts, without those that are mounted on demand."""
    lines = [line.split() for line in text.splitlines()]
    found = [Mount(_plain(words[1]), words[2]) for words in lines if len(words) > 2]
    automatic = tuple(f"{mount.path.rstrip('/')}/" for mount in found if mount.kind == "autofs")
    kept = {
        mount.path: mount
        for mount in found
        if (mount.shared or mount.kind in LOCAL_TYPES) and not f"{mount.path}/".startswith(automatic or ("\0",))
    }
    return tuple(kept[path] for path in sorted(kept)[:MAX_MOUNTS])


def _plain(path: str) -> str:
    """Decode the octal escapes of spaces and similar characters."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, letter)
    return path


def mounts_subsystem(graph: Graph, mounts: Iterable[Mount], on: str) -> Subsystem | None:
    """Return the subsystem, attached to vertex `on`; None without mounts."""
    vertices = [
        Vertex(
            id=f"mount:{mount.path}",
            type="mount",
            name=mount.path,
            metadata={"path": mount.path, "fstype": mount.kind, "shared": mount.shared},
        )
        for mount in mounts
    ]
    if not vertices:
        return None
    return Subsystem.build(SUBSYSTEM, graph.positions(), vertices, [(on, vertex.id) for vertex in vertices])
