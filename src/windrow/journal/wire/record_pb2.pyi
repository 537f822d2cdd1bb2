from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("uuid", "seq", "key", "headers", "value", "topic", "time", "control")
    UUID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    seq: int
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    value: bytes
    topic: str
    time: int
    control: Control
    def __init__(self, uuid: _Optional[bytes] = ..., seq: _Optional[int] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., value: _Optional[bytes] = ..., topic: _Optional[str] = ..., time: _Optional[int] = ..., control: _Optional[_Union[Control, _Mapping]] = ...) -> None: ...

class Control(_message.Message):
    __slots__ = ("writer", "batch", "previous", "count", "seq", "owner")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    writer: str
    batch: str
    previous: str
    count: int
    seq: int
    owner: str
    def __init__(self, writer: _Optional[str] = ..., batch: _Optional[str] = ..., previous: _Optional[str] = ..., count: _Optional[int] = ..., seq: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...
