"""A small catalogue of made-up tools."""

from openclaw.discovery.stems import ToolDocument


def tool(server: str, name: str, description: str, **parameters: str) -> ToolDocument:
    properties: dict[str, object] = {
        key: {"type": "string", "description": text} for key, text in parameters.items()
    }
    schema: dict[str, object] = {"type": "object", "properties": properties}
    return ToolDocument(f"mcp_{server}_{name}", server, name, description, schema)


TOOLS = (
    tool("github", "create_issue", "Create a new issue in a repository", title="The title"),
    tool("github", "list_issues", "List the issues of a repository", state="open or closed"),
    tool("github", "mergePullRequest", "Merge a pull request", number="Which one"),
    tool("files", "read_file", "Read the contents of a file", path="Where the file is"),
    tool("files", "delete_file", "Delete a file from disk", path="Where the file is"),
    tool("mail", "send_message", "Send an email to someone", recipient="Who gets it"),
    tool("sky", "get_forecast", "Weather for the next days", city="The city"),
    tool("time", "convert_time", "Convert a time between time zones", zone="IANA time zone"),
    tool("shop", "find_product", "Find items to buy", budget="At most this much money"),
)
