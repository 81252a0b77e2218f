"""Texts to measure the leakage check with: test items in two languages, disguises, and clean trajectories."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from envace.leakage.records import EvalItem
from envace.leakage.sources import read_items
from envace.leakage.text import words
from envace.trajectory import Message, Tool, ToolCall, Trajectory

CJK = re.compile(r"[\u3400-\u9fff]")

# fmt: off
ENGLISH = {
    "who": ["my sister", "our new tenant", "a client of mine", "the night nurse", "my landlord",
            "the head coach", "an old friend", "our accountant", "the school board", "my upstairs neighbor",
            "the band", "a juror"],
    "want": ["reschedule", "double-check", "cancel", "compare", "print", "translate", "forward", "archive",
             "summarize", "renew", "split", "label", "return", "insure", "measure", "repaint"],
    "what": ["the lease", "two train tickets", "a dental claim", "the garden plan", "an invoice",
             "the vaccine card", "a broken bicycle", "the seating chart", "a wedding gift",
             "the furnace manual", "some blood tests", "the harbor permit", "a violin", "the tax letter",
             "a telescope", "the camp menu", "a kayak"],
    "when": ["before lunch", "by Thursday", "after the storm", "within an hour", "next spring", "at dawn",
             "during the break", "on the second of May", "while I am abroad", "as soon as the shop opens"],
    "why": ["because the old one got wet", "since nobody answers the phone", "although the price went up",
            "so that we can move in early", "unless it costs a fortune", "because my back still hurts",
            "in case the ferry is late", "as the doctor told us to", "now that the permit expired"],
    "where": ["in Lund", "near the old mill", "at gate nine", "in our basement", "behind the library",
              "in Porto", "at the lake house", "on the fourth floor", "across the border",
              "in the other building"],
}
CHINESE = {
    "谁": ["我姐姐", "新来的房客", "一位客户", "值班护士", "房东", "教练", "老同学", "会计", "楼上的邻居",
           "乐队的鼓手"],
    "做": ["改期", "核对", "取消", "比较", "打印", "翻译", "转发", "归档", "总结", "续签", "退掉", "投保",
           "测量", "粉刷"],
    "物": ["租约", "两张火车票", "牙科账单", "花园图纸", "一张发票", "疫苗本", "坏了的自行车", "座位表",
           "结婚礼物", "锅炉说明书", "验血单", "港口许可证", "小提琴", "税务信函", "望远镜", "营地菜单",
           "皮划艇"],
    "时": ["午饭前", "周四以前", "暴雨过后", "一小时之内", "明年春天", "天亮的时候", "课间", "五月二号",
           "我出国期间"],
    "因": ["因为旧的淋湿了", "因为电话没人接", "虽然涨价了", "这样我们能早点搬进去", "除非特别贵",
           "因为腰还在疼", "万一渡轮晚点", "医生是这么嘱咐的", "反正许可证也过期了"],
    "地": ["在隆德", "在老磨坊旁边", "在九号登机口", "在地下室", "在图书馆后面", "在湖边小屋", "在四楼",
           "在隔壁楼里"],
}
FRAMES = {
    "en": ["Could you {want} {what} for {who} {when}, {why}?",
           "{who} would like to {want} {what} {where} {when}.", "I have to {want} {what} {where}, {why}.",
           "Please help {who} to {want} {what} {when}.", "Is there a way to {want} {what} {where} {why}?",
           "We left {what} {where}; {who} should {want} it {when}."],
    "zh": ["能不能{时}帮{谁}{做}{物}，{因}？", "{谁}想{时}{地}{做}{物}。", "我得{地}{做}{物}，{因}。",
           "请帮{谁}{时}{做}{物}。", "{因}，有没有办法{地}{做}{物}？",
           "{物}落{地}了，{谁}应该{时}去{做}。"],
}
ITEM_FRAMES = ["麻烦用{tool}查一下{物}，{因}，{时}告诉{谁}，编号是{number}。",
               "{谁}{地}等着{物}，请先{做}再回复，限额{number}元。",
               "关于{物}，{谁}说{因}，所以要用{tool}{做}一遍，从{number}开始。"]
NAMES = ["Ottilie", "Bram", "Zsofia", "Kweku", "Ingrid", "Tomasz", "Leilani", "Vasco", "Nkechi", "Anselm"]
# fmt: on


def language(text: str) -> str:
    """`zh` when at least a fifth of the tokens are Chinese characters, else `en`."""
    tokens = words(text)
    return "zh" if 5 * sum(bool(CJK.match(token)) for token in tokens) > len(tokens) else "en"


def sentence(rng: random.Random, tongue: str) -> str:
    """A sentence that nobody asked before; there are millions."""
    slots = ENGLISH if tongue == "en" else CHINESE
    text = rng.choice(FRAMES[tongue]).format(**{slot: rng.choice(fill) for slot, fill in slots.items()})
    return text[0].upper() + text[1:]


def sentences(rng: random.Random, tongue: str, count: int) -> str:
    """Several sentences."""
    return (" " if tongue == "en" else "").join(sentence(rng, tongue) for _ in range(count))


def evaluation_sets(data: Path) -> dict[str, list[EvalItem]]:
    """Items by `SET/LANGUAGE`: every set as published, and Chinese items in its place where it has few.

    Args:
        data: Folder with `vitabench/delivery_tasks_en.json` and `finmcp_demo_infer.json`; sets whose file
            or harness is absent are left out.
    """
    files = {"vitabench": "vitabench/delivery_tasks_en.json", "finmcp": "finmcp_demo_infer.json"}
    entries = [
        "bfcl_v4",
        "tau2",
        *(f"{name}={data / file}" for name, file in files.items() if (data / file).is_file()),
    ]
    sets: dict[str, list[EvalItem]] = {}
    for entry in entries:
        name = entry.partition("=")[0]
        items = [item for item in read_items(entry) if words(item.text)]
        by_tongue = {tongue: [i for i in items if language(i.text) == tongue] for tongue in ("en", "zh")}
        if len(by_tongue["zh"]) < 10:
            by_tongue["zh"] += [rendered(item) for item in items[:500]]
        sets |= {f"{name}/{tongue}": found for tongue, found in by_tongue.items() if found}
    return sets


def rendered(item: EvalItem) -> EvalItem:
    """A Chinese item in the place of one of a set that has none: another text, the same tools."""
    rng = random.Random(item.id)
    slots = {slot: rng.choice(fill) for slot, fill in CHINESE.items()}
    text = "".join(
        frame.format(**slots, tool=rng.choice(item.tools or ("订单系统",)), number=rng.randint(10, 99_999))
        for frame in rng.sample(ITEM_FRAMES, 2)
    )
    return EvalItem(benchmark=item.benchmark, id=f"{item.id}/zh", text=text, tools=item.tools)


def verbatim(text: str, rng: random.Random) -> str:
    """As it is."""
    return text


def rewrapped(text: str, rng: random.Random) -> str:
    """Other line breaks: at white space, and between Chinese characters."""
    text = re.sub(r"\s+", lambda _: rng.choice([" ", "\n   ", "\r\n\t"]), text)
    return re.sub(
        r"(?<=[\u3400-\u9fff])(?=[\u3400-\u9fff])", lambda _: "\n" if rng.random() < 0.2 else "", text
    )


def embedded(text: str, rng: random.Random) -> str:
    """In the middle of a much longer text, as sentences of its own."""
    tongue = language(text)
    closed = text if re.search(r"[^\w\s]\s*$", text) else text + ("。" if tongue == "zh" else ".")
    return f"{sentences(rng, tongue, 8)} {closed} {sentences(rng, tongue, 8)}"


def repunctuated(text: str, rng: random.Random) -> str:
    """Another case, other punctuation marks; full-width forms in Chinese."""
    marks = {".": "!", ",": ";", "?": " ...", "!": ".", ";": ",", ":": " -", '"': "»", "'": "’", "(": "[",
             ")": "]", "。": "！", "，": "；", "？": "……", "、": "，"}  # fmt: skip
    text = rng.choice([str.upper, str.lower, str.title, str.swapcase])(text)
    text = "".join(marks.get(character, character) for character in text)
    if language(text) == "zh":
        text = "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalnum() else c for c in text)
    return text


def swapped(text: str, rng: random.Random) -> str:
    """Other names and numbers: capitalized words, numbers, Chinese people, places and things."""
    text = re.sub(r"(?<=[a-z,] )[A-Z][a-z]+", lambda _: rng.choice(NAMES), text)
    for slot in ("谁", "地", "物"):
        for name in CHINESE[slot]:
            text = text.replace(name, rng.choice(CHINESE[slot]))
    return re.sub(r"\d+", lambda found: str(rng.randint(1, 10 ** len(found.group()))), text)


DISGUISES: dict[str, Callable[[str, random.Random], str]] = {
    "verbatim": verbatim,
    "re-wrapped": rewrapped,
    "embedded": embedded,
    "re-cased and re-punctuated": repunctuated,
    "names swapped": swapped,
}
"""How a leak may look; the last is a near paraphrase, of which n-grams see only a part."""


def planted(items: Sequence[EvalItem], disguise: str, seed: int = 0) -> list[Trajectory]:
    """One trajectory an item, in which a user asks it in disguise; its id is the item's."""
    found = []
    for item in items:
        rng = random.Random(f"{disguise}/{item.id}/{seed}")
        found.append(conversation(item.id, [DISGUISES[disguise](item.text, rng)], rng))
    return found


TOOLS = tuple(
    Tool(
        name=f"{verb}_{noun}",
        description=f"{verb.title()} a {noun} of the customer.",
        parameters={
            "type": "object",
            "properties": {
                f"{noun}_id": {"type": "string", "description": "which one"},
                "note": {"type": "string"},
            },
            "required": [f"{noun}_id"],
        },
    )
    for verb in ("find", "renew", "close", "print", "measure", "insure")
    for noun in ("lease", "permit", "kayak", "violin", "menu", "claim")
)


def conversation(id: str, asked: Sequence[str], rng: random.Random) -> Trajectory:
    """A trajectory of some turns with calls."""
    tools = tuple(rng.sample(TOOLS, 5))
    messages: list[Message] = []
    for text in asked:
        tool = rng.choice(tools)
        key = next(iter(tool.parameters["properties"]))
        call = ToolCall(
            name=tool.name, arguments={key: f"{rng.randrange(16**8):08x}", "note": sentence(rng, "en")}
        )
        messages += [
            Message(role="user", content=text),
            Message(role="assistant", tool_calls=(call,)),
            Message(
                role="tool", name=tool.name, content=f'{{"ok":true,"{key}":"{rng.randrange(16**8):08x}"}}'
            ),
            Message(role="assistant", content=sentence(rng, "en")),
        ]
    return Trajectory(id=id, source="synthetic", tools=tools, messages=tuple(messages))


def real_sentences(data: Path) -> list[str]:
    """Sentences that people wrote about tools: descriptions of published MCP servers."""
    file = data / "mcp_servers.jsonl"
    servers = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.is_file() else []
    texts = [tool["description"] or "" for server in servers for tool in server["tools"]]
    return [part.strip() for text in texts for part in re.split(r"(?<=[.!?])\s|\n", text) if len(part) > 8]


def clean(
    count: int, seed: int = 0, turns: int = 4, length: int = 3, real: Sequence[str] = ()
) -> Iterator[Trajectory]:
    """Trajectories that leak nothing: nine of ten in English, the last turn of `real` sentences."""
    for number in range(count):
        rng = random.Random(f"clean/{seed}/{number}")
        tongue = "zh" if number % 10 == 9 else "en"
        asked = [sentences(rng, tongue, length) for _ in range(turns)]
        if real:
            asked[-1] = " ".join(rng.choice(real) for _ in range(length))
        yield conversation(f"clean-{number}", asked, rng)
