"""Everything that the hub offers to one client, under names that are unique among all servers.

Tools are named as they are for our own agent. A resource has its own address, or, if a server before
it lists the same one, that address behind the server's name.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from openclaw.content.labels import UnsafeSchema, sanitise_label, sanitise_schema
from openclaw.core.errors import NotFound
from openclaw.core.tools import ToolSpec
from openclaw.mcp.declarations import Prompt, Resource, ResourceTemplate
from openclaw.mcp_client.bridge import resources as mcp_resources
from openclaw.mcp_client.bridge.tool_source import CallableTool
from openclaw.mcp_client.catalog.server_tools import (
    MAX_LABEL,
    ServerTools,
    build_catalog,
    safe_name,
)
from openclaw.mcp_client.lifecycle.managed_server import ServerUse

_MOST_WORDS = 4_000
_PREFIX = "mcp+"

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """`readers` are our own tools that read a server's resources, by server: policy covers them."""

    tools: Mapping[str, CallableTool]
    readers: Mapping[str, CallableTool]
    prompts: Mapping[str, tuple[ServerUse, Prompt]]
    resources: Mapping[str, tuple[ServerUse, Resource]]
    templates: tuple[tuple[ServerUse, ResourceTemplate], ...]
    specs: tuple[ToolSpec, ...] = field(default=())

    def tool(self, name: str) -> CallableTool | None:
        return self.tools.get(name)

    def callable(self, name: str) -> CallableTool | None:
        """The same, or one of our own that reads resources."""
        readers = (one for one in self.readers.values() if one.spec.name == name)
        return self.tools.get(name) or next(readers, None)

    def without_resources_of(self, servers: Collection[str]) -> "Catalogue":
        resources = {
            u: one for u, one in self.resources.items() if one[0].server.name not in servers
        }
        templates = tuple(one for one in self.templates if one[0].server.name not in servers)
        return replace(self, resources=resources, templates=templates)

    def owner_of(self, uri: str) -> tuple[ServerUse, str]:
        """The server of this resource, and its own address for it; raises `NotFound`."""
        listed = self.resources.get(uri)
        if listed is not None:
            use, resource = listed
            return use, resource.uri
        for use, template in self.templates:
            if _may_expand_to(template.uri_template, uri):
                return use, uri
        for one in self.tools.values():
            if one.tool.whole and one.tool.uri == uri:
                return self._use_of(one.server.name), uri
        raise NotFound(f"there is no resource {uri}")

    def template_owner(self, template: str) -> ServerUse | None:
        return next((use for use, one in self.templates if one.uri_template == template), None)

    def _use_of(self, server: str) -> ServerUse:
        one = self.readers[server]
        return ServerUse(one.server.config, one.server)


def build_catalogue(uses: Mapping[str, ServerUse]) -> Catalogue:
    tools: dict[str, CallableTool] = {}
    readers: dict[str, CallableTool] = {}
    listed = (
        ServerTools(name, use.config.tool_prefix or name, use.tools(0))
        for name, use in uses.items()
    )
    for spec, tool in build_catalog(listed):
        server = spec.origin.server or ""
        use = uses[server]
        bound = CallableTool(spec, tool, use.server, use.rendering(tool.name))
        (readers if tool.ours else tools)[server if tool.ours else spec.name] = bound
    specs = tuple(one.spec for one in (*tools.values(), *readers.values()))
    return Catalogue(
        tools, readers, _prompts(uses), _resources(uses, readers), _templates(uses, readers), specs
    )


def _prompts(uses: Mapping[str, ServerUse]) -> dict[str, tuple[ServerUse, Prompt]]:
    found: dict[str, tuple[ServerUse, Prompt]] = {}
    for name, use in uses.items():
        for prompt in use.server.listing.prompts if use.config.prompts else ():
            prefix = safe_name(use.config.tool_prefix or name)
            found.setdefault(f"{prefix}_{safe_name(prompt.name)}", (use, prompt))
    return found


def _resources(
    uses: Mapping[str, ServerUse], readers: Mapping[str, object]
) -> dict[str, tuple[ServerUse, Resource]]:
    found: dict[str, tuple[ServerUse, Resource]] = {}
    for name, use in uses.items():
        if name not in readers:
            continue
        for resource in mcp_resources.filter_resources(use.server.ordinary_resources, ()):
            taken = resource.uri in found
            uri = f"{_PREFIX}{safe_name(name)}:{resource.uri}" if taken else resource.uri
            found.setdefault(uri, (use, resource))
    return found


def _templates(
    uses: Mapping[str, ServerUse], readers: Mapping[str, object]
) -> tuple[tuple[ServerUse, ResourceTemplate], ...]:
    return tuple(
        (use, template)
        for name, use in uses.items()
        if name in readers and use.config.resources
        for template in use.server.listing.resource_templates
    )


def _may_expand_to(template: str, uri: str) -> bool:
    """Whether the address begins and ends like the template, and so may be one of its own."""
    before, brace, rest = template.partition("{")
    after = rest.rpartition("}")[2] if brace else ""
    fixed = len(before) + len(after)
    return bool(brace) and len(uri) >= fixed and uri.startswith(before) and uri.endswith(after)


# ---- declarations


def tool_json(one: CallableTool) -> JsonObject:
    """A tool as the hub declares it: what our agent sees, and what the agent has no use for."""
    declared = next((t for t in one.server.listing.tools if t.name == one.tool.name), None)
    fields: JsonObject = {
        "name": one.spec.name,
        "description": one.spec.description,
        "inputSchema": one.spec.input_schema,
    }
    if declared is not None and declared.title:
        fields["title"] = sanitise_label(declared.title, MAX_LABEL)
    if declared is not None and declared.annotations is not None:
        hints = dict(declared.annotations.to_json())
        if "title" in hints:
            hints["title"] = sanitise_label(hints["title"], MAX_LABEL)
        fields["annotations"] = hints
    if one.tool.output_schema is not None:
        with suppress(UnsafeSchema):  # a client does without it
            fields["outputSchema"] = sanitise_schema(one.tool.output_schema)
    return fields


def prompt_json(name: str, prompt: Prompt) -> JsonObject:
    fields = _with_clean_words({**prompt.to_json(), "name": name})
    arguments = [_with_clean_words(dict(one)) for one in fields.get("arguments", ())]
    return {**fields, "arguments": arguments} if arguments else fields


def resource_json(uri: str, resource: Resource) -> JsonObject:
    return _with_clean_words({**resource.to_json(), "uri": uri})


def template_json(template: ResourceTemplate) -> JsonObject:
    return _with_clean_words(dict(template.to_json()))


def _with_clean_words(fields: JsonObject) -> JsonObject:
    words = ("title", "description")
    return {
        key: sanitise_label(value, _MOST_WORDS) if key in words else value
        for key, value in fields.items()
    }


class CatalogueCache:
    """The catalogue of each scope, built again after a server changed."""

    def __init__(self, uses_of: Callable[[str, str], Mapping[str, ServerUse]]) -> None:
        self._uses_of = uses_of
        self._built: dict[tuple[str, str], Catalogue] = {}

    def of(self, agent: str, scope: str) -> Catalogue:
        key = agent, scope
        if key not in self._built:
            self._built[key] = build_catalogue(self._uses_of(agent, scope))
        return self._built[key]

    def clear(self) -> None:
        self._built.clear()

    def __iter__(self) -> Iterator[Catalogue]:
        return iter(self._built.values())
