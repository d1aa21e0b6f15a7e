from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Spec(_message.Message):
    __slots__ = ("canonical", "text", "dialect")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    canonical: str
    text: str
    dialect: str
    def __init__(self, canonical: _Optional[str] = ..., text: _Optional[str] = ..., dialect: _Optional[str] = ...) -> None: ...

class Terms(_message.Message):
    __slots__ = ("priority", "delivery", "retries", "hold", "start_after", "deadline", "fail_fast", "policy", "policy_options", "only_clusters", "not_clusters", "max_cost", "prefer", "labels", "array", "dependencies", "signature", "lost_after", "reruns")
    class PolicyOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    START_AFTER_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    FAIL_FAST_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ONLY_CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    NOT_CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_FIELD_NUMBER: _ClassVar[int]
    PREFER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_FIELD_NUMBER: _ClassVar[int]
    RERUNS_FIELD_NUMBER: _ClassVar[int]
    priority: int
    delivery: str
    retries: int
    hold: bool
    start_after: float
    deadline: float
    fail_fast: bool
    policy: str
    policy_options: _containers.ScalarMap[str, str]
    only_clusters: _containers.RepeatedScalarFieldContainer[str]
    not_clusters: _containers.RepeatedScalarFieldContainer[str]
    max_cost: float
    prefer: str
    labels: _containers.ScalarMap[str, str]
    array: str
    dependencies: _containers.RepeatedScalarFieldContainer[str]
    signature: str
    lost_after: float
    reruns: int
    def __init__(self, priority: _Optional[int] = ..., delivery: _Optional[str] = ..., retries: _Optional[int] = ..., hold: _Optional[bool] = ..., start_after: _Optional[float] = ..., deadline: _Optional[float] = ..., fail_fast: _Optional[bool] = ..., policy: _Optional[str] = ..., policy_options: _Optional[_Mapping[str, str]] = ..., only_clusters: _Optional[_Iterable[str]] = ..., not_clusters: _Optional[_Iterable[str]] = ..., max_cost: _Optional[float] = ..., prefer: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., array: _Optional[str] = ..., dependencies: _Optional[_Iterable[str]] = ..., signature: _Optional[str] = ..., lost_after: _Optional[float] = ..., reruns: _Optional[int] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("name", "spec", "terms", "client_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    spec: Spec
    terms: Terms
    client_token: str
    def __init__(self, name: _Optional[str] = ..., spec: _Optional[_Union[Spec, _Mapping]] = ..., terms: _Optional[_Union[Terms, _Mapping]] = ..., client_token: _Optional[str] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("id", "state", "cluster", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: str
    cluster: str
    reason: str
    def __init__(self, id: _Optional[int] = ..., state: _Optional[str] = ..., cluster: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class SubmitBatchRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[SubmitRequest]
    def __init__(self, jobs: _Optional[_Iterable[_Union[SubmitRequest, _Mapping]]] = ...) -> None: ...

class SubmitBatchResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[SubmitResponse]
    def __init__(self, jobs: _Optional[_Iterable[_Union[SubmitResponse, _Mapping]]] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("spec", "terms", "reasons")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    spec: Spec
    terms: Terms
    reasons: bool
    def __init__(self, spec: _Optional[_Union[Spec, _Mapping]] = ..., terms: _Optional[_Union[Terms, _Mapping]] = ..., reasons: _Optional[bool] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("decision", "explanations")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    EXPLANATIONS_FIELD_NUMBER: _ClassVar[int]
    decision: str
    explanations: str
    def __init__(self, decision: _Optional[str] = ..., explanations: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "owner", "name", "state", "cluster", "attempt", "attempt_state", "native_id", "exit_code", "reason", "hold", "submitted_at", "started_at", "ended_at", "spec", "source", "terms", "evaluations", "evaluated_at", "nodes", "failure", "hosts", "code")
    ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_STATE_FIELD_NUMBER: _ClassVar[int]
    NATIVE_ID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_AT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    id: int
    owner: str
    name: str
    state: str
    cluster: str
    attempt: int
    attempt_state: str
    native_id: str
    exit_code: int
    reason: str
    hold: str
    submitted_at: float
    started_at: float
    ended_at: float
    spec: str
    source: str
    terms: Terms
    evaluations: int
    evaluated_at: float
    nodes: int
    failure: str
    hosts: str
    code: str
    def __init__(self, id: _Optional[int] = ..., owner: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., cluster: _Optional[str] = ..., attempt: _Optional[int] = ..., attempt_state: _Optional[str] = ..., native_id: _Optional[str] = ..., exit_code: _Optional[int] = ..., reason: _Optional[str] = ..., hold: _Optional[str] = ..., submitted_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., spec: _Optional[str] = ..., source: _Optional[str] = ..., terms: _Optional[_Union[Terms, _Mapping]] = ..., evaluations: _Optional[int] = ..., evaluated_at: _Optional[float] = ..., nodes: _Optional[int] = ..., failure: _Optional[str] = ..., hosts: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("id", "spec")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    id: int
    spec: bool
    def __init__(self, id: _Optional[int] = ..., spec: _Optional[bool] = ...) -> None: ...

class JobFilter(_message.Message):
    __slots__ = ("states", "cluster", "name", "labels", "ids", "since", "owner")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STATES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[str]
    cluster: str
    name: str
    labels: _containers.ScalarMap[str, str]
    ids: _containers.RepeatedScalarFieldContainer[int]
    since: float
    owner: str
    def __init__(self, states: _Optional[_Iterable[str]] = ..., cluster: _Optional[str] = ..., name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., ids: _Optional[_Iterable[int]] = ..., since: _Optional[float] = ..., owner: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("filter", "limit", "before")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    filter: JobFilter
    limit: int
    before: int
    def __init__(self, filter: _Optional[_Union[JobFilter, _Mapping]] = ..., limit: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("filter", "after", "from_now")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FROM_NOW_FIELD_NUMBER: _ClassVar[int]
    filter: JobFilter
    after: int
    from_now: bool
    def __init__(self, filter: _Optional[_Union[JobFilter, _Mapping]] = ..., after: _Optional[int] = ..., from_now: _Optional[bool] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "job", "at", "kind", "state", "attempt", "detail")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    seq: int
    job: int
    at: float
    kind: str
    state: str
    attempt: int
    detail: str
    def __init__(self, seq: _Optional[int] = ..., job: _Optional[int] = ..., at: _Optional[float] = ..., kind: _Optional[str] = ..., state: _Optional[str] = ..., attempt: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("id", "follow", "stream", "tail", "stdout_offset", "stderr_offset")
    ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    STDOUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    id: int
    follow: bool
    stream: str
    tail: int
    stdout_offset: int
    stderr_offset: int
    def __init__(self, id: _Optional[int] = ..., follow: _Optional[bool] = ..., stream: _Optional[str] = ..., tail: _Optional[int] = ..., stdout_offset: _Optional[int] = ..., stderr_offset: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("stream", "offset", "data")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    stream: str
    offset: int
    data: bytes
    def __init__(self, stream: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("ids", "filter", "reason", "dry_run")
    IDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    filter: JobFilter
    reason: str
    dry_run: bool
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., filter: _Optional[_Union[JobFilter, _Mapping]] = ..., reason: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("jobs", "unchanged")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    unchanged: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., unchanged: _Optional[_Iterable[int]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("job", "decision", "explanations", "events")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    EXPLANATIONS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    job: Job
    decision: str
    explanations: str
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., decision: _Optional[str] = ..., explanations: _Optional[str] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...
