"""List and answer the questions that wait for you.

If a call needs your approval while nobody can be asked, it isn't made, and the question waits here.
Without an action, this lists the open questions.
"""

import argparse
from contextlib import nullcontext

from openclaw.cli.chat.terminal_questions import TerminalQuestions
from openclaw.cli.commands.sessions import open_named_store
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action, not_there, option
from openclaw.cli.terminal import counted, local_time, shortened, visible_lines
from openclaw.core.clock import SystemClock
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.questions import Answer
from openclaw.gateway.lock import running_gateway
from openclaw.sessions import waiting_questions
from openclaw.sessions.store import SessionStore
from openclaw.sessions.waiting_questions import WaitingQuestion, already_answered, waiting_json

YES, NO = "yes", "no"
_CALL_CHARS = 100


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="what")
    parser.set_defaults(what="list", json=False, all=False)
    listed = add_action(actions, "list", "list the open questions (the default)")
    option(listed, "--all", "list answered questions as well")
    show = add_action(actions, "show", "print a question with the whole call")
    option(show, "ID", "the question's id")
    answer = add_action(actions, "answer", "allow a call once, or refuse it")
    option(answer, "[ID]", "the question's id (default: each open question in turn)")
    meaning = "the answer (default: shows the whole call and asks you)"
    option(answer, "[ANSWER]", meaning, choices=(YES, NO))
    option(answer, "--reason TEXT", "with no: why not, for the agent to read", default="")


async def run(args: argparse.Namespace, env: Environment) -> None:
    async with open_named_store(None, env) as store:
        now = SystemClock().now_ms()
        listed = [] if store is None else await waiting_questions.list_questions(store, now)
        if args.what == "list":
            _list(args, env, listed)
        elif args.what == "show":
            _show(args, env, _named(args.id, listed))
        else:
            await _answer(args, env, store, listed)


def _list(args: argparse.Namespace, env: Environment, listed: list[WaitingQuestion]) -> None:
    shown = listed if args.all else [one for one in listed if one.state == "open"]
    lines = [visible_lines(line) for one in shown for line in _lines(one)]
    facts = {"questions": [waiting_json(one) for one in shown]}
    env.report(args, facts, *lines, empty="No question waits for you.")


def _lines(waiting: WaitingQuestion) -> tuple[str, str]:
    place, state = waiting.place, "" if waiting.state == "open" else f"{waiting.state}, "
    until = f"expires {local_time(waiting.expires_ms)}"
    about = f"{state}asked {local_time(waiting.created_ms)}, {until}, session {place.session}"
    call = waiting.question.body.partition("\n")[0]
    asks = f"{waiting.question.title} {shortened(call, _CALL_CHARS)}".rstrip()
    return f"{waiting.id}  {asks}", f"{' ' * len(waiting.id)}  {about}"


def _show(args: argparse.Namespace, env: Environment, waiting: WaitingQuestion) -> None:
    first, second = _lines(waiting)
    reason = [f"You said: {waiting.reason}"] if waiting.reason else []
    lines = [first, second.strip(), "", waiting.question.body, *reason]
    env.report(args, waiting_json(waiting), visible_lines("\n".join(lines)))


async def _answer(
    args: argparse.Namespace,
    env: Environment,
    store: SessionStore | None,
    listed: list[WaitingQuestion],
) -> None:
    unanswered = [one for one in listed if one.state == "open"]
    chosen = unanswered if args.id is None else [_named(args.id, listed)]
    if not chosen:
        env.report(args, {"questions": []}, "No question waits for you.")
        return
    assert store is not None
    if args.reason and args.answer != NO:
        raise InvalidRequest("is only for the answer no", field="--reason")
    answered = [await _answer_one(args, env, store, one) for one in chosen]
    lines = [line for one in answered for line in _outcome(env, one)]
    env.report(args, {"questions": [waiting_json(one) for one in answered]}, *lines)


async def _answer_one(
    args: argparse.Namespace, env: Environment, store: SessionStore, waiting: WaitingQuestion
) -> WaitingQuestion:
    if args.answer is not None:
        answer = Answer("once" if args.answer == YES else "no", args.reason)
    else:
        answer = await _ask(args, env, waiting)
    return await waiting_questions.answer_question(
        store,
        waiting,
        allow=waiting.question.allowed_by(answer),
        reason=answer.reason,
        now_ms=SystemClock().now_ms(),
    )


async def _ask(args: argparse.Namespace, env: Environment, waiting: WaitingQuestion) -> Answer:
    if waiting.state != "open":
        raise already_answered(waiting)
    if args.json or not (env.stdin.isatty() and env.stderr.isatty()):
        hint = f"{env.program} questions answer {waiting.id} yes"
        raise InvalidRequest("the answer, yes or no, is missing", hint=hint)
    there = TerminalQuestions.at_terminal(env.stdin, env.stderr, env.warn, nullcontext, env.environ)
    return await there.ask(waiting.question)


def _outcome(env: Environment, waiting: WaitingQuestion) -> list[str]:
    calls, place = counted(len(waiting.question.calls), "call"), waiting.place
    said = f"Allowed {calls}, once." if waiting.state == "allowed" else f"Refused {calls}."
    if place.is_of_hub:
        return [f"{said} It is made when the client calls the tool again."]
    if place.carries_on and running_gateway(env.paths.gateway_lock) is not None:
        return [f"{said} The gateway carries on in session {place.session}."]
    follow = f"{env.program} agent --session-key {place.session} 'Go on.'"
    return [f"{said} The next message in session {place.session} carries on:", f"  {follow}"]


def _named(wanted: str, listed: list[WaitingQuestion]) -> WaitingQuestion:
    for one in listed:
        if one.id == wanted:
            return one
    known = [one.id for one in listed if one.state == "open"]
    missing = f"there is no question '{wanted}', or it has expired"
    raise not_there(missing, wanted, known) if known else NotFound(missing)
