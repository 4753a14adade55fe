"""Tools of agents that take effect once: what idem_postgres.mcp and idem_postgres.agents share. docs/agents.md describes it."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import json
import math
import typing
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from .call import dumps
from .errors import CommitUnknown, InDoubt, InFlight, LeaseLost, Mismatch, ResultNotStored, is_retryable, is_unavailable, sqlstate
from .interval import Interval
from .leased import async_leased, leased
from .once import Done, async_once, once

Key: TypeAlias = Literal["argument", "call"] | Callable[..., Any]
Scope: TypeAlias = str | Callable[[Any], str]

KEY_DESCRIPTION = (
    "A new UUID for each operation that the user wants. Repeat a call, also after a timeout, with the same value and exactly the same arguments."
)
_LONGEST_KEY = 200
_KEY_MISSING = {
    "argument": 'Give "idempotency_key": one new UUID for each operation that the user wants, and the same one when you repeat the call.',
    "call": "The host sent no id of the call, without which a repetition could do it twice. Tell the user.",
    "function": "The arguments do not say which operation this is. Give the missing ones.",
}


class ToolRefused(Exception):
    """The call was not done, or not again. The message is for the model, `code` for the program."""

    def __init__(self, code: str, text: str, retry_after_ms: float | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.retry_after_ms = retry_after_ms


def text_of(code: str, facts: dict[str, Any]) -> str:
    """What the model reads: tests/vectors/tool_texts.json has the texts of all languages."""
    tool = facts["tool"]
    again = "Do not call it again, neither under this key nor under a new one."
    match code:
        case "replayed":
            return f"({tool}: this exact call was made before. It was not done again; this is its stored result.)"
        case "omitted":
            return (
                f"{tool}: this call was done before and was not done again. Its result was too large to be kept. "
                "Read what it did with another tool."
            )
        case "in_flight":
            seconds = max(1, math.ceil((facts.get("retryAfterMs") or 1000) / 1000))
            same = "exactly the same arguments" + (" and the same idempotency_key" if facts.get("argument") else "")
            return (
                f"{tool}: this call is already running and was not started again. Wait {seconds} s, then repeat it with {same}. "
                "Do not start it under another key."
            )
        case "mismatch":
            return (
                f'{tool}: refused, nothing was done. The key "{facts["key"]}" belongs to an earlier call with other arguments, and that '
                "call may have taken effect. Find out what it did before you go on. To get its result, repeat it with exactly its "
                "arguments. Only a different, new operation has a key of its own."
            )
        case "in_doubt":
            step = f' (step "{facts["step"]}")' if facts.get("step") else ""
            return f"{tool}: it is not known whether an earlier attempt took effect{step}. {again} A person must check. Tell the user."
        case "not_stored":
            return f"{tool}: it has run, and its result could not be stored. {again} Tell the user."
        case "commit_unknown":
            return (
                f"{tool}: the connection to the database was lost at the end, so it is not known yet whether the call took effect. "
                "Repeat it with exactly the same arguments. It will not be done twice."
            )
        case "lease_lost":
            return (
                f"{tool}: another attempt has taken this call over. Wait a few seconds, then repeat it with exactly the same "
                "arguments to get its result."
            )
        case "unavailable":
            return (
                f"{tool}: the database could not be reached, so the call was not completed. Wait a few seconds, then repeat it with "
                "exactly the same arguments. What has been done is not done again."
            )
    assert code == "key_missing"
    return f"{tool}: nothing was done. {_KEY_MISSING[facts['source']]}"


_CODES: tuple[tuple[type[Exception], str], ...] = (
    (InFlight, "in_flight"),
    (Mismatch, "mismatch"),
    (InDoubt, "in_doubt"),
    (LeaseLost, "lease_lost"),
    (CommitUnknown, "commit_unknown"),
    (ResultNotStored, "not_stored"),
)


@dataclass(frozen=True)
class Outcome:
    """For metrics. `outcome`: run, replay, error, or the code of a refusal."""

    tool: str
    scope: str | None
    key: str | None
    outcome: str


@dataclass(frozen=True)
class Settings:
    pool: Any
    scope: Scope
    key: Key
    identity: Iterable[str] | None
    lease: Interval | None
    ttl: Interval | None
    wait: Interval
    schema: str
    on_outcome: Callable[[Outcome], None] | None
    contexts: frozenset[str]
    """The names of the SDK's classes of a context."""
    call_id: Callable[[Any], str | None]
    """The id of the call in a context."""
    refuse: Callable[[ToolRefused], Any]
    """Raises the refusal, or returns what the SDK gives to the model."""


def tool_of(function: Callable[..., Any], settings: Settings) -> Callable[..., Awaitable[Any]]:
    """The function for the SDK: without the parameter `run` or `work`, and for key="argument" with `idempotency_key`."""
    tool = _Tool(function, settings)

    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await tool.call(args, kwargs)
        except ToolRefused as refused:
            return settings.refuse(refused)

    del wrapper.__wrapped__  # type: ignore[attr-defined] # an SDK would see its signature
    wrapper.__signature__ = tool.signature  # type: ignore[attr-defined]
    wrapper.__annotations__ = {
        name: parameter.annotation
        for name, parameter in tool.signature.parameters.items()
        if parameter.annotation is not inspect.Parameter.empty
    }
    if tool.signature.return_annotation is not inspect.Signature.empty:
        wrapper.__annotations__["return"] = tool.signature.return_annotation
    return wrapper


class _Tool:
    def __init__(self, function: Callable[..., Any], settings: Settings) -> None:
        self._function = function
        self._settings = settings
        self._name = function.__name__
        self._handed = "run" if settings.lease is None else "work"
        self._is_async = inspect.iscoroutinefunction(function)
        own = _resolved(function)
        if self._handed not in own.parameters:
            with_lease = "" if settings.lease is None else ", because it has a lease"
            raise TypeError(f'the tool {self._name} needs a parameter "{self._handed}"{with_lease}')
        parameters = [parameter for name, parameter in own.parameters.items() if name != self._handed]
        self._context = next((one.name for one in parameters if _class_name(one.annotation) in settings.contexts), None)
        self._check({parameter.name for parameter in parameters})
        if settings.key == "argument":
            last = len(parameters) - (1 if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else 0)
            parameters.insert(last, inspect.Parameter("idempotency_key", inspect.Parameter.KEYWORD_ONLY, annotation=_key_annotation()))
        self.signature = own.replace(parameters=parameters)

    def _check(self, names: set[str]) -> None:
        key, identity = self._settings.key, self._settings.identity
        if key not in ("argument", "call") and not callable(key):
            raise TypeError('"key" is "argument", "call" or a function of the arguments')
        if not callable(self._settings.scope) and not (isinstance(self._settings.scope, str) and self._settings.scope):
            raise TypeError('"scope" is the authenticated user, a text, or a function of the context that returns it')
        if key == "argument" and "idempotency_key" in names:
            raise TypeError(f'{self._name} has an idempotency_key of its own: give key=lambda args: args["idempotency_key"]')
        if key == "call" and self._context is None:
            raise TypeError(f'key="call" needs a parameter of {self._name} with the SDK\'s context: {", ".join(sorted(self._settings.contexts))}')
        for name in identity or ():
            if name not in names:
                raise TypeError(f'"identity" of {self._name} names "{name}", which is no argument')

    async def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        argument = given.pop("idempotency_key", None) if self._settings.key == "argument" else None
        context = given.get(self._context) if self._context else None
        arguments = {name: value for name, value in given.items() if name != self._context}
        outcome, key, scope = "error", None, None
        try:
            key = self._key_of(arguments, argument, context)
            scope = self._settings.scope if isinstance(self._settings.scope, str) else self._settings.scope(context)
            if not isinstance(scope, str) or not scope:
                raise TypeError('the function "scope" returned no text; it must name the authenticated user, or the thread')
            done = await self._run(key, scope, arguments, given)
            outcome = "omitted" if done.replayed and done.omitted else "replay" if done.replayed else "run"
            if outcome == "omitted":
                raise self._refusal("omitted")
            # A repetition by the framework is no news for the model; one by the model is.
            if done.replayed and isinstance(done.value, str) and self._settings.key != "call":
                return f"{done.value}\n{text_of('replayed', {'tool': self._name})}"
            return done.value
        except ToolRefused as refused:
            outcome = refused.code
            raise
        finally:
            if self._settings.on_outcome is not None:
                self._settings.on_outcome(Outcome(self._name, scope, key, outcome))

    def _key_of(self, arguments: dict[str, Any], argument: str | None, context: Any) -> str:
        match self._settings.key:
            case "argument":
                key: Any = argument
            case "call":
                key = self._settings.call_id(context)
            case function:
                key = function(arguments)
        if key is None or key == "":
            raise self._refusal("key_missing")
        if not isinstance(key, (str, int)):
            raise TypeError(f"the key of {self._name} must be text")
        return str(key)

    async def _run(self, key: str, scope: str, arguments: dict[str, Any], given: dict[str, Any]) -> Done:
        settings = self._settings
        raised: list[BaseException] = []

        def options() -> dict[str, Any]:
            names = self._settings.identity
            chosen = arguments if names is None else {name: arguments[name] for name in names}
            common = {"scope": scope, "fingerprint": fingerprint(self._name, chosen), "ttl": settings.ttl, "wait": settings.wait, "schema": settings.schema}
            return common if settings.lease is None else {**common, "lease": settings.lease}

        def note(error: BaseException) -> None:
            raised.clear()
            raised.append(error)

        def work(handed: Any) -> Any:
            try:
                return _plain(self._function(**given, **{self._handed: handed}))
            except BaseException as error:
                note(error)
                raise

        async def async_work(handed: Any) -> Any:
            try:
                return _plain(await self._function(**given, **{self._handed: handed}))
            except BaseException as error:
                note(error)
                raise

        full = f"{self._name}/{key}"
        try:
            if self._is_async:
                if settings.lease is None:
                    return await async_once(settings.pool, full, async_work, **options())
                return await async_leased(settings.pool, full, async_work, **options())
            # The SDKs call a function in their event loop.
            if settings.lease is None:
                return await asyncio.to_thread(lambda: once(settings.pool, full, work, **options()))
            return await asyncio.to_thread(lambda: leased(settings.pool, full, work, **options()))
        except Exception as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
            if code is None and (is_retryable(error) or not raised and _is_gone(error)):
                code = "unavailable"
            if code is None:
                raise
            raise self._refusal(code, key=key, step=getattr(error, "step", None), retryAfterMs=getattr(error, "retry_after_ms", None)) from error

    def _refusal(self, code: str, **facts: Any) -> ToolRefused:
        source = self._settings.key if isinstance(self._settings.key, str) else "function"
        text = text_of(code, {"tool": self._name, "source": source, "argument": source == "argument", **facts})
        return ToolRefused(code, text, facts.get("retryAfterMs"))


def fingerprint(tool: str, arguments: dict[str, Any]) -> bytes:
    """Of JSON with sorted members: models give members in another order in each attempt."""
    plain = json.loads(dumps([tool, {name: _plain(value) for name, value in arguments.items()}]))
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).digest()


def _is_gone(error: Exception) -> bool:
    """Also a connection that the driver could not open, which has no SQLSTATE."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return is_unavailable(error) or sqlstate(error) is None and (isinstance(error, OSError) or "OperationalError" in names)


def _plain(value: Any) -> Any:
    """A model of pydantic is stored as JSON."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _resolved(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with types in place of texts, as far as they are known."""
    signature = inspect.signature(function)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:
        return signature
    parameters = [one.replace(annotation=hints.get(name, one.annotation)) for name, one in signature.parameters.items()]
    return signature.replace(parameters=parameters, return_annotation=hints.get("return", signature.return_annotation))


def _class_name(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation.split("[")[0].split(".")[-1].strip()
    return getattr(typing.get_origin(annotation) or annotation, "__name__", "")


def _key_annotation() -> Any:
    try:
        from pydantic import Field
    except ImportError:
        return Annotated[str, KEY_DESCRIPTION]
    return Annotated[str, Field(description=KEY_DESCRIPTION, min_length=1, max_length=_LONGEST_KEY)]
