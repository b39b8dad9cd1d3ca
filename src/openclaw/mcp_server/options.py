"""The command line of `mcp-server`, read without the full parser, which takes as long as the handshake."""

_FLAGS = {"-v": "verbose", "--verbose": "verbose", "--log-json": "log_json", "--local": "local"}


class Options:
    """The command line's options, under the full parser's names."""

    agent: str | None = None
    config: str | None = None
    verbose = log_json = local = False


def parse_options(arguments: list[str]) -> Options | None:
    """The options if they are ordinary; None if the full parser has to explain or help."""
    options = Options()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            setattr(options, _FLAGS[word], True)
        elif name in ("--agent", "--config") and (equals or rest):
            setattr(options, name[2:], value if equals else rest.pop(0))
        else:
            return None
    return options
