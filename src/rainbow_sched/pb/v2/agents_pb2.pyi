from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttemptRef(_message.Message):
    __slots__ = ("job", "n", "token")
    JOB_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    job: int
    n: int
    token: str
    def __init__(self, job: _Optional[int] = ..., n: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class SyncRequest(_message.Message):
    __slots__ = ("cluster", "epoch", "seq", "held", "reports", "accepts", "rejects", "command_acks", "bids", "want", "accept_only", "output", "manager", "version", "wait", "state", "marks", "used", "has_used", "guards", "order_by", "node_rules", "mark", "recalls", "recall")
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
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    REJECTS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_ACKS_FIELD_NUMBER: _ClassVar[int]
    BIDS_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_ONLY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    HAS_USED_FIELD_NUMBER: _ClassVar[int]
    GUARDS_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    NODE_RULES_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    RECALLS_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    epoch: str
    seq: int
    held: _containers.RepeatedCompositeFieldContainer[Held]
    reports: _containers.RepeatedCompositeFieldContainer[Report]
    accepts: _containers.RepeatedCompositeFieldContainer[AttemptRef]
    rejects: _containers.RepeatedCompositeFieldContainer[Reject]
    command_acks: _containers.RepeatedScalarFieldContainer[int]
    bids: _containers.RepeatedCompositeFieldContainer[Bid]
    want: int
    accept_only: str
    output: _containers.RepeatedCompositeFieldContainer[Output]
    manager: str
    version: str
    wait: float
    state: str
    marks: _containers.ScalarMap[str, str]
    used: _containers.ScalarMap[str, int]
    has_used: bool
    guards: bool
    order_by: str
    node_rules: NodeRules
    mark: str
    recalls: bool
    recall: Recall
    def __init__(self, cluster: _Optional[str] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., reports: _Optional[_Iterable[_Union[Report, _Mapping]]] = ..., accepts: _Optional[_Iterable[_Union[AttemptRef, _Mapping]]] = ..., rejects: _Optional[_Iterable[_Union[Reject, _Mapping]]] = ..., command_acks: _Optional[_Iterable[int]] = ..., bids: _Optional[_Iterable[_Union[Bid, _Mapping]]] = ..., want: _Optional[int] = ..., accept_only: _Optional[str] = ..., output: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., manager: _Optional[str] = ..., version: _Optional[str] = ..., wait: _Optional[float] = ..., state: _Optional[str] = ..., marks: _Optional[_Mapping[str, str]] = ..., used: _Optional[_Mapping[str, int]] = ..., has_used: _Optional[bool] = ..., guards: _Optional[bool] = ..., order_by: _Optional[str] = ..., node_rules: _Optional[_Union[NodeRules, _Mapping]] = ..., mark: _Optional[str] = ..., recalls: _Optional[bool] = ..., recall: _Optional[_Union[Recall, _Mapping]] = ...) -> None: ...

class Recall(_message.Message):
    __slots__ = ("attempts", "complete")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[KnownAttempt]
    complete: bool
    def __init__(self, attempts: _Optional[_Iterable[_Union[KnownAttempt, _Mapping]]] = ..., complete: _Optional[bool] = ...) -> None: ...

class KnownAttempt(_message.Message):
    __slots__ = ("attempt", "phase", "report", "offer")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptRef
    phase: str
    report: Report
    offer: Offer
    def __init__(self, attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., phase: _Optional[str] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ...) -> None: ...

class NodeRules(_message.Message):
    __slots__ = ("hosts", "subsystems", "groups", "one_group", "merges")
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    SUBSYSTEMS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ONE_GROUP_FIELD_NUMBER: _ClassVar[int]
    MERGES_FIELD_NUMBER: _ClassVar[int]
    hosts: bool
    subsystems: _containers.RepeatedScalarFieldContainer[str]
    groups: bool
    one_group: str
    merges: bool
    def __init__(self, hosts: _Optional[bool] = ..., subsystems: _Optional[_Iterable[str]] = ..., groups: _Optional[bool] = ..., one_group: _Optional[str] = ..., merges: _Optional[bool] = ...) -> None: ...

class GroupHosts(_message.Message):
    __slots__ = ("group", "hosts")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    group: int
    hosts: str
    def __init__(self, group: _Optional[int] = ..., hosts: _Optional[str] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("attempt", "state")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptRef
    state: str
    def __init__(self, attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., state: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("attempt", "state", "exit_code", "failure", "reason", "native_id", "started_at", "ended_at", "nodes", "code")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NATIVE_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptRef
    state: str
    exit_code: int
    failure: str
    reason: str
    native_id: str
    started_at: float
    ended_at: float
    nodes: str
    code: str
    def __init__(self, attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., state: _Optional[str] = ..., exit_code: _Optional[int] = ..., failure: _Optional[str] = ..., reason: _Optional[str] = ..., native_id: _Optional[str] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., nodes: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class Reject(_message.Message):
    __slots__ = ("attempt", "reason")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptRef
    reason: str
    def __init__(self, attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("attempt", "stream", "offset", "data")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptRef
    stream: str
    offset: int
    data: bytes
    def __init__(self, attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., stream: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class SyncResponse(_message.Message):
    __slots__ = ("ack", "confirms", "offers", "commands", "bid_requests", "heartbeat", "resync", "expected", "acked_reports", "output_acks", "renew", "unknown_reports", "server", "mark", "recall")
    ACK_FIELD_NUMBER: _ClassVar[int]
    CONFIRMS_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    BID_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    ACKED_REPORTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ACKS_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_REPORTS_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    ack: int
    confirms: _containers.RepeatedCompositeFieldContainer[AttemptRef]
    offers: _containers.RepeatedCompositeFieldContainer[Offer]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    bid_requests: _containers.RepeatedCompositeFieldContainer[BidRequest]
    heartbeat: float
    resync: bool
    expected: _containers.RepeatedCompositeFieldContainer[AttemptRef]
    acked_reports: _containers.RepeatedCompositeFieldContainer[AttemptRef]
    output_acks: _containers.RepeatedCompositeFieldContainer[OutputAck]
    renew: bool
    unknown_reports: _containers.RepeatedCompositeFieldContainer[AttemptRef]
    server: str
    mark: str
    recall: bool
    def __init__(self, ack: _Optional[int] = ..., confirms: _Optional[_Iterable[_Union[AttemptRef, _Mapping]]] = ..., offers: _Optional[_Iterable[_Union[Offer, _Mapping]]] = ..., commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ..., bid_requests: _Optional[_Iterable[_Union[BidRequest, _Mapping]]] = ..., heartbeat: _Optional[float] = ..., resync: _Optional[bool] = ..., expected: _Optional[_Iterable[_Union[AttemptRef, _Mapping]]] = ..., acked_reports: _Optional[_Iterable[_Union[AttemptRef, _Mapping]]] = ..., output_acks: _Optional[_Iterable[_Union[OutputAck, _Mapping]]] = ..., renew: _Optional[bool] = ..., unknown_reports: _Optional[_Iterable[_Union[AttemptRef, _Mapping]]] = ..., server: _Optional[str] = ..., mark: _Optional[str] = ..., recall: _Optional[bool] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("attempt", "name", "owner", "spec", "terms", "lease", "priority", "array_index", "is_array", "hosts", "hosts_checked")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    IS_ARRAY_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_CHECKED_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptRef
    name: str
    owner: str
    spec: str
    terms: str
    lease: float
    priority: int
    array_index: int
    is_array: bool
    hosts: _containers.RepeatedCompositeFieldContainer[GroupHosts]
    hosts_checked: bool
    def __init__(self, attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., spec: _Optional[str] = ..., terms: _Optional[str] = ..., lease: _Optional[float] = ..., priority: _Optional[int] = ..., array_index: _Optional[int] = ..., is_array: _Optional[bool] = ..., hosts: _Optional[_Iterable[_Union[GroupHosts, _Mapping]]] = ..., hosts_checked: _Optional[bool] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("id", "kind", "attempt", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: int
    kind: str
    attempt: AttemptRef
    reason: str
    def __init__(self, id: _Optional[int] = ..., kind: _Optional[str] = ..., attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class BidRequest(_message.Message):
    __slots__ = ("id", "spec", "deadline", "hosts", "hosts_checked")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_CHECKED_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: str
    deadline: float
    hosts: _containers.RepeatedCompositeFieldContainer[GroupHosts]
    hosts_checked: bool
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[str] = ..., deadline: _Optional[float] = ..., hosts: _Optional[_Iterable[_Union[GroupHosts, _Mapping]]] = ..., hosts_checked: _Optional[bool] = ...) -> None: ...

class Bid(_message.Message):
    __slots__ = ("id", "yes", "reason", "start_p50", "start_p90", "runtime_factor", "cost", "valid_for")
    ID_FIELD_NUMBER: _ClassVar[int]
    YES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    START_P50_FIELD_NUMBER: _ClassVar[int]
    START_P90_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FACTOR_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    id: str
    yes: bool
    reason: str
    start_p50: float
    start_p90: float
    runtime_factor: float
    cost: float
    valid_for: float
    def __init__(self, id: _Optional[str] = ..., yes: _Optional[bool] = ..., reason: _Optional[str] = ..., start_p50: _Optional[float] = ..., start_p90: _Optional[float] = ..., runtime_factor: _Optional[float] = ..., cost: _Optional[float] = ..., valid_for: _Optional[float] = ...) -> None: ...

class OutputAck(_message.Message):
    __slots__ = ("attempt", "stream", "next_offset")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptRef
    stream: str
    next_offset: int
    def __init__(self, attempt: _Optional[_Union[AttemptRef, _Mapping]] = ..., stream: _Optional[str] = ..., next_offset: _Optional[int] = ...) -> None: ...

class ReceiveRequest(_message.Message):
    __slots__ = ("cluster", "limit", "accept_only", "lease", "order_by")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_ONLY_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    limit: int
    accept_only: str
    lease: float
    order_by: str
    def __init__(self, cluster: _Optional[str] = ..., limit: _Optional[int] = ..., accept_only: _Optional[str] = ..., lease: _Optional[float] = ..., order_by: _Optional[str] = ...) -> None: ...

class ReceiveResponse(_message.Message):
    __slots__ = ("offers",)
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    offers: _containers.RepeatedCompositeFieldContainer[Offer]
    def __init__(self, offers: _Optional[_Iterable[_Union[Offer, _Mapping]]] = ...) -> None: ...

class AcceptRequest(_message.Message):
    __slots__ = ("cluster", "attempts")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptRef]
    def __init__(self, cluster: _Optional[str] = ..., attempts: _Optional[_Iterable[_Union[AttemptRef, _Mapping]]] = ...) -> None: ...

class AcceptResponse(_message.Message):
    __slots__ = ("accepted",)
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    accepted: _containers.RepeatedCompositeFieldContainer[AttemptRef]
    def __init__(self, accepted: _Optional[_Iterable[_Union[AttemptRef, _Mapping]]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("cluster", "id", "digest")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    id: str
    digest: bytes
    def __init__(self, cluster: _Optional[str] = ..., id: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
