from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WhoAmIRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WhoAmIResponse(_message.Message):
    __slots__ = ("name", "kind", "scopes", "groups", "token", "expires_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    token: str
    expires_at: float
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[str]] = ..., token: _Optional[str] = ..., expires_at: _Optional[float] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class PutUserRequest(_message.Message):
    __slots__ = ("name", "groups", "rights", "disabled", "create")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: Names
    rights: Names
    disabled: bool
    create: bool
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Union[Names, _Mapping]] = ..., rights: _Optional[_Union[Names, _Mapping]] = ..., disabled: _Optional[bool] = ..., create: _Optional[bool] = ...) -> None: ...

class User(_message.Message):
    __slots__ = ("name", "groups", "rights", "disabled", "created_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    rights: _containers.RepeatedScalarFieldContainer[str]
    disabled: bool
    created_at: float
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., rights: _Optional[_Iterable[str]] = ..., disabled: _Optional[bool] = ..., created_at: _Optional[float] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListUsersResponse(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[User]
    def __init__(self, users: _Optional[_Iterable[_Union[User, _Mapping]]] = ...) -> None: ...

class PutGroupRequest(_message.Message):
    __slots__ = ("name", "clusters", "rights", "create")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    clusters: Names
    rights: Names
    create: bool
    def __init__(self, name: _Optional[str] = ..., clusters: _Optional[_Union[Names, _Mapping]] = ..., rights: _Optional[_Union[Names, _Mapping]] = ..., create: _Optional[bool] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("name", "clusters", "rights", "users")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    clusters: _containers.RepeatedScalarFieldContainer[str]
    rights: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., clusters: _Optional[_Iterable[str]] = ..., rights: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("owner", "scopes", "ttl", "note", "join")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    owner: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    ttl: float
    note: str
    join: bool
    def __init__(self, owner: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., ttl: _Optional[float] = ..., note: _Optional[str] = ..., join: _Optional[bool] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("id", "kind", "owner", "scopes", "created_at", "expires_at", "revoked_at", "used_at", "uses_left", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_FIELD_NUMBER: _ClassVar[int]
    USED_AT_FIELD_NUMBER: _ClassVar[int]
    USES_LEFT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    owner: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    created_at: float
    expires_at: float
    revoked_at: float
    used_at: float
    uses_left: int
    note: str
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., owner: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., created_at: _Optional[float] = ..., expires_at: _Optional[float] = ..., revoked_at: _Optional[float] = ..., used_at: _Optional[float] = ..., uses_left: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class CreateTokenResponse(_message.Message):
    __slots__ = ("token", "text")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    token: Token
    text: str
    def __init__(self, token: _Optional[_Union[Token, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ("owner", "all", "dead")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    owner: str
    all: bool
    dead: bool
    def __init__(self, owner: _Optional[str] = ..., all: _Optional[bool] = ..., dead: _Optional[bool] = ...) -> None: ...

class ListTokensResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RevokeTokenResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RotateTokenRequest(_message.Message):
    __slots__ = ("id", "grace")
    ID_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    id: str
    grace: float
    def __init__(self, id: _Optional[str] = ..., grace: _Optional[float] = ...) -> None: ...

class AskRenewalRequest(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    def __init__(self, cluster: _Optional[str] = ...) -> None: ...

class AskRenewalResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadAuditRequest(_message.Message):
    __slots__ = ("after", "limit", "actor", "verb", "object", "outcome", "address", "verify", "newest")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    after: int
    limit: int
    actor: str
    verb: str
    object: str
    outcome: str
    address: str
    verify: bool
    newest: bool
    def __init__(self, after: _Optional[int] = ..., limit: _Optional[int] = ..., actor: _Optional[str] = ..., verb: _Optional[str] = ..., object: _Optional[str] = ..., outcome: _Optional[str] = ..., address: _Optional[str] = ..., verify: _Optional[bool] = ..., newest: _Optional[bool] = ...) -> None: ...

class AuditLine(_message.Message):
    __slots__ = ("seq", "at", "actor", "credential", "address", "verb", "object", "outcome", "detail", "digest")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: float
    actor: str
    credential: str
    address: str
    verb: str
    object: str
    outcome: str
    detail: str
    digest: str
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[float] = ..., actor: _Optional[str] = ..., credential: _Optional[str] = ..., address: _Optional[str] = ..., verb: _Optional[str] = ..., object: _Optional[str] = ..., outcome: _Optional[str] = ..., detail: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class ReadAuditResponse(_message.Message):
    __slots__ = ("lines", "next", "count", "verified", "broken_at")
    LINES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    BROKEN_AT_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[AuditLine]
    next: int
    count: int
    verified: bool
    broken_at: int
    def __init__(self, lines: _Optional[_Iterable[_Union[AuditLine, _Mapping]]] = ..., next: _Optional[int] = ..., count: _Optional[int] = ..., verified: _Optional[bool] = ..., broken_at: _Optional[int] = ...) -> None: ...
