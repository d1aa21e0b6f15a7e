"""rainbow.v2.Access: who is calling."""

from __future__ import annotations

from typing import Any

from rainbow.pb.v2 import access_pb2 as pb
from rainbow.pb.v2 import access_pb2_grpc
from rainbow.server.gate import caller


class AccessHandler(access_pb2_grpc.AccessServicer):
    """What a credential is and opens."""

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Any) -> pb.WhoAmIResponse:
        by = caller()
        return pb.WhoAmIResponse(name=by.name, kind=by.kind.value if by.kind else "", scopes=sorted(by.scopes))
