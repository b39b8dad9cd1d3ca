"""Show, check and explain the configuration."""

from argparse import ArgumentParser, Namespace
from typing import Any

from openclaw.cli.environment import Environment
from openclaw.core.errors import EXIT_OK, EXIT_USAGE, InvalidConfig, Problem


def register(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, summary in (
        ("path", "print where the configuration file is"),
        ("show", "print the configuration as it takes effect, without secrets"),
        ("validate", "check the file and list every problem"),
        ("schema", "print the JSON Schema of the file, for editors"),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("--json", action="store_true", help="print JSON and nothing else")


def run(args: Namespace, env: Environment) -> int:
    return {"path": _path, "show": _show, "validate": _validate, "schema": _schema}[args.action](
        args, env
    )


def _path(args: Namespace, env: Environment) -> int:
    from openclaw.config.paths import config_path

    path = env.config_option or config_path(env.environ)
    if args.json:
        env.say_json({"path": str(path), "exists": path.exists()})
    else:
        env.say(str(path))
    return EXIT_OK


def _show(args: Namespace, env: Environment) -> int:
    from openclaw.config.show import show

    loaded = env.load_config()
    # Values are redacted one by one: a password that is also a key's name must not hide the key.
    _write_json(env, show(loaded, redactor=env.redactor))
    return EXIT_OK


def _validate(args: Namespace, env: Environment) -> int:
    from openclaw.config.load import load_config

    try:
        loaded = load_config(env.config_option, env.environ)
        if env.config_option is not None and not loaded.exists:
            missing = Problem("", "there is no such file")
            raise InvalidConfig([missing], source=str(loaded.path))
    except InvalidConfig as error:
        if args.json:
            env.say_json({"valid": False, "path": error.source, "problems": _problems(error)})
        else:
            for problem in error.problems:
                env.say(str(problem))
            env.warn(f"{env.program}: {error.message}")
        return EXIT_USAGE
    if args.json:
        env.say_json(
            {
                "valid": True,
                "path": str(loaded.path),
                "exists": loaded.exists,
                "warnings": list(loaded.warnings),
            }
        )
        return EXIT_OK
    for warning in loaded.warnings:
        env.warn(f"warning: {warning}")
    env.say(f"{loaded.path}: {'valid' if loaded.exists else 'not there; the defaults apply'}")
    return EXIT_OK


def _problems(error: InvalidConfig) -> list[dict[str, Any]]:
    return [
        {"path": p.path, "message": p.message, "line": p.line, "column": p.column}
        for p in error.problems
    ]


def _schema(args: Namespace, env: Environment) -> int:
    from openclaw.config.show import json_schema

    # It is the same for everyone and holds nothing to hide; its prose must not be taken for a secret.
    _write_json(env, json_schema())
    return EXIT_OK


def _write_json(env: Environment, value: Any) -> None:
    import json

    env.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
