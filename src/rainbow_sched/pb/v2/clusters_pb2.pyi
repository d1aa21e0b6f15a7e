from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetRestoreRequest(_message.Message):
    __slots__ = ("after", "limit")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    after: int
    limit: int
    def __init__(self, after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class GiveUpReportRequest(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    def __init__(self, cluster: _Optional[str] = ...) -> None: ...

class Restore(_message.Message):
    __slots__ = ("generation", "restored_at", "copied_at", "old_jobs", "clusters", "jobs_waiting", "jobs_unclear", "counts", "findings")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RESTORED_AT_FIELD_NUMBER: _ClassVar[int]
    COPIED_AT_FIELD_NUMBER: _ClassVar[int]
    OLD_JOBS_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    JOBS_WAITING_FIELD_NUMBER: _ClassVar[int]
    JOBS_UNCLEAR_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    restored_at: float
    copied_at: float
    old_jobs: int
    clusters: _containers.RepeatedCompositeFieldContainer[UnreportedCluster]
    jobs_waiting: int
    jobs_unclear: int
    counts: _containers.ScalarMap[str, int]
    findings: _containers.RepeatedCompositeFieldContainer[RestoreFinding]
    def __init__(self, generation: _Optional[int] = ..., restored_at: _Optional[float] = ..., copied_at: _Optional[float] = ..., old_jobs: _Optional[int] = ..., clusters: _Optional[_Iterable[_Union[UnreportedCluster, _Mapping]]] = ..., jobs_waiting: _Optional[int] = ..., jobs_unclear: _Optional[int] = ..., counts: _Optional[_Mapping[str, int]] = ..., findings: _Optional[_Iterable[_Union[RestoreFinding, _Mapping]]] = ...) -> None: ...

class UnreportedCluster(_message.Message):
    __slots__ = ("name", "state", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    why: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RestoreFinding(_message.Message):
    __slots__ = ("seq", "at", "kind", "job", "attempt", "cluster", "detail")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: float
    kind: str
    job: int
    attempt: int
    cluster: str
    detail: str
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[float] = ..., kind: _Optional[str] = ..., job: _Optional[int] = ..., attempt: _Optional[int] = ..., cluster: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class GraphUpload(_message.Message):
    __slots__ = ("header", "data")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    header: GraphHeader
    data: bytes
    def __init__(self, header: _Optional[_Union[GraphHeader, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class GraphHeader(_message.Message):
    __slots__ = ("cluster", "subsystem", "manager", "size")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SUBSYSTEM_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    subsystem: str
    manager: str
    size: int
    def __init__(self, cluster: _Optional[str] = ..., subsystem: _Optional[str] = ..., manager: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("cluster", "exists", "token", "secret")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    exists: bool
    token: str
    secret: str
    def __init__(self, cluster: _Optional[str] = ..., exists: _Optional[bool] = ..., token: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...

class PutGraphResponse(_message.Message):
    __slots__ = ("vertices",)
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    vertices: int
    def __init__(self, vertices: _Optional[int] = ...) -> None: ...

class DeleteSubsystemRequest(_message.Message):
    __slots__ = ("cluster", "subsystem")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SUBSYSTEM_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    subsystem: str
    def __init__(self, cluster: _Optional[str] = ..., subsystem: _Optional[str] = ...) -> None: ...

class DeleteSubsystemResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteClusterRequest(_message.Message):
    __slots__ = ("cluster", "jobs")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    jobs: str
    def __init__(self, cluster: _Optional[str] = ..., jobs: _Optional[str] = ...) -> None: ...

class DeleteClusterResponse(_message.Message):
    __slots__ = ("jobs_moved", "jobs_running")
    JOBS_MOVED_FIELD_NUMBER: _ClassVar[int]
    JOBS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    jobs_moved: int
    jobs_running: int
    def __init__(self, jobs_moved: _Optional[int] = ..., jobs_running: _Optional[int] = ...) -> None: ...

class UpdateStateRequest(_message.Message):
    __slots__ = ("cluster", "values")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    values: str
    def __init__(self, cluster: _Optional[str] = ..., values: _Optional[str] = ...) -> None: ...

class UpdateStateResponse(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: str
    def __init__(self, values: _Optional[str] = ...) -> None: ...

class PatchGraphRequest(_message.Message):
    __slots__ = ("cluster", "marks", "used", "has_used")
    class MarksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class UsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    HAS_USED_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    marks: _containers.ScalarMap[str, str]
    used: _containers.ScalarMap[str, int]
    has_used: bool
    def __init__(self, cluster: _Optional[str] = ..., marks: _Optional[_Mapping[str, str]] = ..., used: _Optional[_Mapping[str, int]] = ..., has_used: _Optional[bool] = ...) -> None: ...

class PatchGraphResponse(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: int
    def __init__(self, changed: _Optional[int] = ...) -> None: ...

class ListClustersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClustersResponse(_message.Message):
    __slots__ = ("clusters",)
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[Cluster]
    def __init__(self, clusters: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ("cluster", "tree")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    tree: bool
    def __init__(self, cluster: _Optional[str] = ..., tree: _Optional[bool] = ...) -> None: ...

class Total(_message.Message):
    __slots__ = ("type", "unit", "vertices", "all", "free")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    type: str
    unit: str
    vertices: int
    all: int
    free: int
    def __init__(self, type: _Optional[str] = ..., unit: _Optional[str] = ..., vertices: _Optional[int] = ..., all: _Optional[int] = ..., free: _Optional[int] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("name", "standing", "manager", "registered_at", "seen_at", "state", "state_at", "totals", "subsystems", "queued", "running", "record", "reason", "tree", "wrong_nodes", "node_rules", "rules")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_AT_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    SUBSYSTEMS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    WRONG_NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_RULES_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    name: str
    standing: str
    manager: str
    registered_at: float
    seen_at: float
    state: str
    state_at: float
    totals: _containers.RepeatedCompositeFieldContainer[Total]
    subsystems: _containers.RepeatedScalarFieldContainer[str]
    queued: int
    running: int
    record: str
    reason: str
    tree: _containers.RepeatedScalarFieldContainer[str]
    wrong_nodes: int
    node_rules: str
    rules: str
    def __init__(self, name: _Optional[str] = ..., standing: _Optional[str] = ..., manager: _Optional[str] = ..., registered_at: _Optional[float] = ..., seen_at: _Optional[float] = ..., state: _Optional[str] = ..., state_at: _Optional[float] = ..., totals: _Optional[_Iterable[_Union[Total, _Mapping]]] = ..., subsystems: _Optional[_Iterable[str]] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., record: _Optional[str] = ..., reason: _Optional[str] = ..., tree: _Optional[_Iterable[str]] = ..., wrong_nodes: _Optional[int] = ..., node_rules: _Optional[str] = ..., rules: _Optional[str] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("cluster", "reason")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    reason: str
    def __init__(self, cluster: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UndrainRequest(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    def __init__(self, cluster: _Optional[str] = ...) -> None: ...

class RuleNames(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class SetRulesRequest(_message.Message):
    __slots__ = ("cluster", "users", "groups", "max_nodes", "max_time", "max_queued", "signed", "clear")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUED_FIELD_NUMBER: _ClassVar[int]
    SIGNED_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    users: RuleNames
    groups: RuleNames
    max_nodes: int
    max_time: float
    max_queued: int
    signed: bool
    clear: bool
    def __init__(self, cluster: _Optional[str] = ..., users: _Optional[_Union[RuleNames, _Mapping]] = ..., groups: _Optional[_Union[RuleNames, _Mapping]] = ..., max_nodes: _Optional[int] = ..., max_time: _Optional[float] = ..., max_queued: _Optional[int] = ..., signed: _Optional[bool] = ..., clear: _Optional[bool] = ...) -> None: ...
