"""The SDK's own answers to the handshake. Made by scripts/record-answers; do not edit."""

# mcp 2.3.0
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)
LATEST = "2025-11-25"
RESULTS = {
    "openclaw": {
        (
            "2024-11-05",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2024-11-05","serverInfo":{"name":"openclaw","version":"@VERSION@"}}',
        (
            "2024-11-05",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to OpenClaw and receive a response. The message will be processed as if typed by a user. Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, and archives (ZIP, TAR.GZ) via base64 encoding.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to OpenClaw"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"},"images":{"type":"array","description":"Optional base64-encoded images (max 10, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded image data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'image/png\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}},"files":{"type":"array","description":"Optional base64-encoded files (max 5, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded file data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'application/pdf\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}}},"required":["message"],"type":"object"},"name":"order_openclaw"}]}',
        (
            "2025-03-26",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2025-03-26","serverInfo":{"name":"openclaw","version":"@VERSION@"}}',
        (
            "2025-03-26",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to OpenClaw and receive a response. The message will be processed as if typed by a user. Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, and archives (ZIP, TAR.GZ) via base64 encoding.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to OpenClaw"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"},"images":{"type":"array","description":"Optional base64-encoded images (max 10, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded image data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'image/png\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}},"files":{"type":"array","description":"Optional base64-encoded files (max 5, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded file data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'application/pdf\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}}},"required":["message"],"type":"object"},"name":"order_openclaw"}]}',
        (
            "2025-06-18",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2025-06-18","serverInfo":{"name":"openclaw","version":"@VERSION@"}}',
        (
            "2025-06-18",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to OpenClaw and receive a response. The message will be processed as if typed by a user. Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, and archives (ZIP, TAR.GZ) via base64 encoding.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to OpenClaw"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"},"images":{"type":"array","description":"Optional base64-encoded images (max 10, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded image data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'image/png\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}},"files":{"type":"array","description":"Optional base64-encoded files (max 5, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded file data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'application/pdf\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}}},"required":["message"],"type":"object"},"name":"order_openclaw"}]}',
        (
            "2025-11-25",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2025-11-25","serverInfo":{"name":"openclaw","version":"@VERSION@"}}',
        (
            "2025-11-25",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to OpenClaw and receive a response. The message will be processed as if typed by a user. Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, and archives (ZIP, TAR.GZ) via base64 encoding.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to OpenClaw"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"},"images":{"type":"array","description":"Optional base64-encoded images (max 10, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded image data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'image/png\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}},"files":{"type":"array","description":"Optional base64-encoded files (max 5, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded file data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'application/pdf\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}}},"required":["message"],"type":"object"},"name":"order_openclaw"}]}',
        (
            "2026-07-28",
            "server/discover",
        ): b'{"cacheScope":"private","capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{"listChanged":true}},"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"openclaw","version":"@VERSION@"}}}',
        (
            "2026-07-28",
            "tools/list",
        ): b'{"cacheScope":"private","resultType":"complete","tools":[{"description":"Send a message to OpenClaw and receive a response. The message will be processed as if typed by a user. Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, and archives (ZIP, TAR.GZ) via base64 encoding.","inputSchema":{"type":"object","properties":{"message":{"type":"string","description":"The message to send to OpenClaw"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"},"images":{"type":"array","description":"Optional base64-encoded images (max 10, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded image data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'image/png\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}},"files":{"type":"array","description":"Optional base64-encoded files (max 5, 15MB each)","items":{"type":"object","properties":{"data":{"type":"string","description":"Base64-encoded file data"},"mimeType":{"type":"string","description":"MIME type (e.g., \'application/pdf\')"},"filename":{"type":"string","description":"Optional filename"}},"required":["data","mimeType"]}}},"required":["message"]},"name":"order_openclaw"}],"ttlMs":0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"openclaw","version":"@VERSION@"}}}',
    },
    "clawdbot": {
        (
            "2024-11-05",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2024-11-05","serverInfo":{"name":"clawdbot","version":"@VERSION@"}}',
        (
            "2024-11-05",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to Clawdbot and receive a response. The message will be processed as if typed by a user.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to Clawdbot"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"}},"required":["message"],"type":"object"},"name":"order_clawdbot"}]}',
        (
            "2025-03-26",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2025-03-26","serverInfo":{"name":"clawdbot","version":"@VERSION@"}}',
        (
            "2025-03-26",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to Clawdbot and receive a response. The message will be processed as if typed by a user.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to Clawdbot"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"}},"required":["message"],"type":"object"},"name":"order_clawdbot"}]}',
        (
            "2025-06-18",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2025-06-18","serverInfo":{"name":"clawdbot","version":"@VERSION@"}}',
        (
            "2025-06-18",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to Clawdbot and receive a response. The message will be processed as if typed by a user.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to Clawdbot"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"}},"required":["message"],"type":"object"},"name":"order_clawdbot"}]}',
        (
            "2025-11-25",
            "initialize",
        ): b'{"capabilities":{"tools":{"listChanged":false}},"protocolVersion":"2025-11-25","serverInfo":{"name":"clawdbot","version":"@VERSION@"}}',
        (
            "2025-11-25",
            "tools/list",
        ): b'{"tools":[{"description":"Send a message to Clawdbot and receive a response. The message will be processed as if typed by a user.","inputSchema":{"properties":{"message":{"type":"string","description":"The message to send to Clawdbot"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"}},"required":["message"],"type":"object"},"name":"order_clawdbot"}]}',
        (
            "2026-07-28",
            "server/discover",
        ): b'{"cacheScope":"private","capabilities":{"tools":{"listChanged":false}},"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"clawdbot","version":"@VERSION@"}}}',
        (
            "2026-07-28",
            "tools/list",
        ): b'{"cacheScope":"private","resultType":"complete","tools":[{"description":"Send a message to Clawdbot and receive a response. The message will be processed as if typed by a user.","inputSchema":{"type":"object","properties":{"message":{"type":"string","description":"The message to send to Clawdbot"},"sessionKey":{"type":"string","description":"Optional session key for conversation continuity"}},"required":["message"]},"name":"order_clawdbot"}],"ttlMs":0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"clawdbot","version":"@VERSION@"}}}',
    },
}
