from typing import Any

import pytest

from openclaw.embedded.tool_intent import Need, need_of, only_varies

NEEDS = {
    Need.TIME: [
        "What time is it in Tokyo?",
        "What time is it?",
        "what's the time",
        "What\u2019s the time?",
        "What is the current time in Oslo?",
        "Do you know what time it is?",
        "Tell me the time",
        "Do you have the time?",
        "What day is it today?",
        "What day of the week is it?",
        "What is today's date?",
        "What's the date today?",
        "Which year is it?",
        "If it's 3pm in Berlin, what time is it in Singapore?",
        "Convert 3pm Berlin to Tokyo",
    ],
    Need.WEATHER: [
        "What's the weather like in Oslo?",
        "How is the weather today?",
        "Will it rain tomorrow?",
        "Is it raining in Berlin?",
        "How cold is it outside?",
        "Give me the weather forecast",
    ],
    Need.FILES: [
        "Read the file notes.txt",
        "Describe the file notes.txt",
        "What does notes.txt say?",
        "What's in README.md?",
        "Summarise report.pdf",
        "How big is notes.txt?",
        "List the files in the workspace",
        "list files",
        "Show me all files",
        "What files are there?",
        "Which files are in the workspace?",
        "What is in my workspace?",
        "Search the workspace for TODO",
        "Search for TODO in the files",
        "Find the document about taxes",
        'Write "hello" to the file notes.txt',
        "Write hello to notes.txt",
        "Save this to a file",
        "Create a folder called drafts",
        "Delete the folder drafts",
        "Could you please open my documents?",
        "What does the readme say?",
    ],
    Need.WEB: [
        "Open https://example.org/page",
        "Tell me about https://example.org/page",
        "What is on www.example.org?",
        "Search the web for cats",
        "Look up the weather girls online",
        "Google cats",
        "What are the latest news?",
        "Summarise this web page",
    ],
    Need.MEDIA: [
        "What is in this image?",
        "Describe the picture",
        "Describe the attached photo",
        "What can you see in the picture?",
        "What does this screenshot show?",
        "Transcribe the recording",
        "Who is on this photo?",
    ],
    Need.ACTION: [
        "Send an email to Ana saying hello",
        "Email ana@example.org that I am late",
        "Run the tests",
        "Please run the command ls",
        "Remind me to buy milk",
        "Set a timer for five minutes",
    ],
}
TALK = [
    "What is Node.js used for?",
    "Is Node.js good?",
    "What does e.g. mean?",
    "Who invented the folder?",
    "What is the file system of macOS?",
    "Which file format is best for music?",
    "Write a function that writes to a file",
    "What is time?",
    "What is the time complexity of quicksort?",
    "What is the date of the battle of Hastings?",
    "I wrote notes.txt yesterday",
    "I like rainy weather.",
    "What is weather?",
    "Write a poem about the weather",
    "Who painted the picture of Dorian Gray?",
    "What is the temperature of the sun?",
    "How do I read a file in Python?",
    "Say **hi**",
    "What is a website?",
    "Send my regards to your maker",
    "Is there time for tea?",
    "See you in the morning",
    "Run!",
    "What is the point of files?",
    "What day is Christmas?",
]


@pytest.mark.parametrize(
    ("message", "need"), [(text, need) for need, texts in NEEDS.items() for text in texts]
)
def test_what_only_a_tool_can_know_or_do_is_recognised(message: str, need: Need) -> None:
    assert need_of(message) == need


@pytest.mark.parametrize("message", TALK)
def test_conversation_needs_nothing(message: str) -> None:
    assert need_of(message) is None


def test_every_phrasing_that_needs_no_tool_is_left_to_the_model(
    phrasings: Any, development: Any
) -> None:
    groups = ("noTool", "noToolLate", "noToolBlind")
    chat = [*development["noTool"], *(text for name in groups for text in phrasings[name])]
    assert [text for text in chat if need_of(text)] == []


def test_nearly_every_phrasing_that_needs_a_tool_is_recognised_without_one(phrasings: Any) -> None:
    groups = ("first", "heldOut", "late", "blind")
    cases = [case["text"] for name in groups for case in phrasings[name]]
    missed = [text for text in cases if need_of(text) is None]
    assert len(missed) / len(cases) < 0.1, missed


def test_a_follow_up_names_a_thing_and_little_else() -> None:
    assert only_varies("and in Paris?")
    assert not only_varies("and then?")
    assert not only_varies("Paris is beautiful")
