# ruff: noqa: RUF001 - other scripts are what this is about
"""What the words of a text are about, as bits: the cheap half of detection.

Every word is looked up once. Only sentences whose words speak to an agent and ask something of it
are read by the patterns of `openclaw.content.detection.signals`, so that ordinary text costs one dictionary
lookup a word.
"""

import codecs
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

# Not phrases but stems of the few things that such orders speak of, in some thirty languages; word
# order and inflection are left open. What counts is which of them meet in one sentence.

# Setting something aside.
_UNDO = """
ignorier ignorez ignora\\b ignore[zs]?\\s(?:toute|tes|les|ces|vos|tudo|todas?|as\\b|el\\b|las\\b|los\\b|o\\b) ignoruj zignoruj ignorera ignorér ignoreer ignorar ignorați olvid
oublie vergiss vergesst vergeet negeer abaikan lupakan pomiń pomijaj esqueça esquece desconsider
desestim dimentic strunta bortse\\b glöm glem\\b unohda jätä\\shuomiot zapomeň zapomnij nerespektuj
hagyd\\sfigyelmen felejtsd uită bỏ\\squa quên unut yok\\ssay görmezden missacht hör\\sauf
не\\sслушай игнорир забуд отмени ігнор проігнор (?<!不要)(?<!勿)(?<!别)忽略 无视 無視 忽視 忘记 忘掉 忘れ 무시 잊어 تجاهل انس\\b
نادیده فراموش अनदेखा नज़रअंदाज़ भूल התעלם שכח αγνόησ ξέχν αγνοήστε উপেক্ষা புறக்கணி เพิกเฉย ละเว้น
gelten\\s\\w+\\sregeln\\snicht regeln\\snicht\\smehr n'obéis no\\sobedezcas
"""
# What an agent was told.
_RULES = """
что\\sтебе\\sговор jusqu'ici ce\\squ'on\\st'a was\\sman\\sdir lo\\sque\\ste\\s(?:dij|han) ciò\\sche\\sti 之前的内容 これまでの
anweisung vorgabe regeln richtlinie instruc instruk instruç instrukt instructi istruzion directiv consigne
règle reglas regras regole directrice instructies regels opdracht polecen wytyczn pokyn instrukc
talimat yönerge hướng\\sdẫn chỉ\\sdẫn chỉ\\sthị perintah arahan ohjee utasítás instrucțiun tidigare\\sregler
инструкц указани правил команд\\w*\\sвыше вказівк інструкц 指令 指示 说明 提示 规则 規則 命令 지시 명령 지침
تعليمات الأوامر القواعد دستورالعمل دستورات निर्देश आदेश הוראות ההנחיות הנחיות οδηγίες εντολές নির্দেশ
கட்டளை คำสั่ง systemprompt n'obéis obedezcas
"""
# Whom it is said to.
_AGENT = """
\\bassistent\\w*\\b \\bassistente\\b \\bassistant\\s \\bagent\\w*\\b modelle?\\b künstlich ai[\\s-]?assist \\bllm\\b \\bmi-assz 智能助手 ai\\s?代理 エージェント
에이전트 언어\\s?모델 نموذج المساعد\\sالذكي सहायक мовна языков\\w+\\sмодел kunstmatige\\sintell umetn tekoäly ผู้ช่วย সহকারী tn\\b τν\\b
mod[eè]l\\w*\\s(?:de\\s|di\\s)?(?:lang|lingu) modelos?\\sde\\s(?:lenguaje|linguagem) ai-hjälp
ki-assist ki-agent ki-system ki-model \\bki\\b künstliche\\sintelligenz sprachmodell \\bia\\b l'assistant asistente
assistente\\s(?:virtual|de\\sia|ai) intelligenza\\sartificiale inteligencia\\sartificial ai-assist ai-model ai-agent
taalmodel sztuczn\\w+\\sintelig model\\w*\\sjęzyk asystent yapay\\szeka asisten\\sai trợ\\slý umělá\\sintelig tekoäly
språkmodell ии-\\w+ \\bии\\b искусственн ассистент шi нейросет мовн\\w+\\sмодел 人工智能 ai助手 助手 语言模型 大模型 aiアシスタント
人工知能 言語モデル aiエージェント 인공지능 ai\\s?어시스턴트 ai\\s?비서 الذكاء\\sالاصطناعي المساعد هوش\\sمصنوعی دستیار एआई सहायक
בינה\\sמלאכותית עוזר τεχνητή\\sνοημοσύνη
"""
# More of the same, which only the weights look at: alone it says little.
_AGENT_TOO = """
assistent asistent asystenc asistan asisten\\b asszisztens assistant\\b sprachmodel språkmodell sprogmodel jazykov\\w*\\smodel model\\w*\\sjęzyk
ki-agent ai-agent \\bagentes?\\b \\bagents\\sd \\bagenti?\\b agenc?i\\b modèles modelos?\\b modelli\\b taalmodel dil\\smodel yapay\\szek
umělé\\sintelig sztuczn intelig[eê]n[cț] inteligenț mesterséges kielimalli tekoäly nyelvi\\smodell tác\\snhân mô\\shình trí\\stuệ kecerdasan\\sbuatan
model\\sbahasa \\bagen\\b ассистент асистент помощник помічник нейросет искусствен штучн изкуств модел[иьяeеі] \\bши\\b \\bші\\b шi агент مساعد وكلاء نموذج
دستیار مدل\\sزبانی هوش\\sمصنوعی עוזר סוכ[ןנ] מודל בינה एजेंट मॉडल कृत्रिम सहायक एआई এজেন্ট মডেল এআই কৃত্রিম সহকারী 智能体 智能 模型 代理 助手 助理
モデル アシスタント エージェント (?<![a-z])ai(?![a-z]) 모델 어시스턴트 비서 에이전트 인공지능 ผู้ช่วย ปัญญาประดิษฐ์ โมเดล βοηθ πράκτορ μοντέλ νοημοσύνη \\bτν\\b \\bki\\b \\bia\\b \\bmi-
"""
_USER = """
benutzer nutzer anwender usuari utilisateur utente usuári utilizador gebruiker użytkowni uživatel пользовател користувач потребител
kullanıcı المستخدم کاربر משתמש उपयोगकर्ता ব্যবহারকারী 用户 用戶 使用者 ユーザ 利用者 사용자 이용자 người\\sdùng ผู้ใช้ pengguna användar bruger bruker
käyttäjä felhasználó utilizator χρήστη
"""
_PRIOR = """
vorherig bisherig obige anterior précédent antérieur precedent eerder vorige bovenstaand poprzedni wcześniejsz powyższ předchoz dřívějš
предыдущ прежн выше попередн предишн досегашн önceki yukarıda السابق أعلاه قبلی پیشین הקודמ पिछल पहले\\sके আগের 之前 以上 先前 上述 此前
これまで 以前 上記 이전 지금까지 위의 trước\\sđó ก่อนหน้า sebelumnya di\\satas tidigare tidligere aiem korábbi eddigi anterioare προηγούμεν
"""
_UNATTENDED = """
automati automá automatisch automatyczn автоматич otomatik tự\\sđộng 自动处理 自動処理 自动化 자동 الآلية آلي אוטומט स्वचालित স্বয়ংক্রিয় αυτόματ
อัตโนมัติ خودکار elaborazione verarbeit traitement procesamiento processamento verwerk обраб обробк 处理
"""
# That somebody must not learn of it, or is not asked.
_HIDE = """
ne\\sl'en\\sinforme sag\\s(?:dem|der|niemand) nichts nu\\sspune ne\\sdis sans\\sdemander sin\\spedir zonder\\sbevestiging zeg\\sniets
не\\sспрашивай нікому nikomu 别让 不需要确认 无需确认 確認なし 묻지 확인을\\s요청하지 دون\\sتأكيد بدون पुष्टि\\sमत बताए\\sबिना sormadan bahsetme
ne\\smentionnez ne\\sle\\sdites no\\smencion erfahren nichts\\sdavon nobody\\sknow никому
ohne\\sden\\s(?:nutzer|benutzer|anwender) ohne\\s(?:zu\\sfragen|rückfrage|bestätigung) erwähn\\w*[^.\\n]{0,16}\\bnicht
(?:sag|verrate)[^.\\n]{0,16}\\bnicht sans\\s(?:prévenir|avertir|informer|demander|le\\sdire) ne\\sdis\\srien n'en\\sparle
sin\\s(?:avisar|informar|decir|preguntar|confirmar) no\\s(?:se\\s)?(?:le\\s|lo\\s)?(?:digas|menciones|informes) non\\sdir
senza\\s(?:avvisare|informare|dirlo|chiedere) não\\s(?:conte|diga|informe|mencione) sem\\s(?:avisar|informar|perguntar)
zonder\\s(?:de\\sgebruiker|te\\svragen|het\\ste) vertel[^.\\n]{0,16}niet nie\\s(?:mów|informuj|wspominaj) bez\\s(?:wiedzy|pytania|vědomí)
neříkej utan\\satt\\s(?:berätta|fråga|meddela) berätta\\sinte älä\\skerro jangan\\s(?:beri|katakan) tanpa\\smemberi
đừng\\snói không\\scho söyleme haber\\sverme не\\sсообщай не\\sговори не\\sупоминай без\\sведома не\\sкажи не\\sповідомляй
不要告诉 别告诉 不要通知 勿告知 不得告知 知らせず 伝えず 教えず 言わない 内緒 알리지 말하지\\s?말 몰래 لا\\sتخبر دون\\sعلم نگو मत\\sबता אל\\sתספר
μην\\s(?:το\\s)?πεις
"""
# Handing something out, or doing something.
_GIVE = """
überweis schreibe transmets supprim approuv approva paga\\b apaga apague pague öde\\b silmek hapus menghapus xóa radera slet\\b usuń prześlij uruchom
переведи прочитай постав видали удалить вывести 读取 放进 调用 支付 転送 支払 送信 삭제 보내 انقل احذف اكتب हटा भेजें ส่ง পাঠাও küldd trimite στείλε בצע מחק
recommand recomiend empfiehl empfehl consiglia recomend рекоменд 推荐 推薦 おすすめ 추천
schick sende leite weiter zeig gib\\b lies\\b führe\\b lösche veröffentlich envoi envoy affiche montre révèle exécut supprime
transfère env[ií][ae] muestra muestre reenv revel ejecut borra elimina llama invia mostra rivela esegui inoltra cancella
envie mostre exiba execute encaminhe stuur toon verwijder voer\\b verzend wyślij wyświetl pokaż ujawnij wykonaj usuń
vypiš zobraz pošli spusť smaž skriv\\sut visa\\b skicka kör\\b lähetä näytä küldd mutasd afișează trimite kirim tampilkan jalankan
hapus hiển\\sthị gửi tiết\\slộ chạy göster gönder çalıştır sil\\b отправ покажи выведи перешли выполн удали вышли покаж надішли виконай
发送 输出 显示 发到 转发 泄露 执行 删除 上传 发给 告诉我 送信 表示 転送 実行 削除 出力 教えて 전송 출력 보여 보내 실행 삭제 표시 أرسل اعرض اكشف
نفذ احذف أظهر نشان ارسال بفرست दिखा भेज चला הצג שלח חשוף הרץ εμφάνισ δείξ στείλ εκτέλεσ
"""
# What is worth having, or whose it is.
_PRIZE = """
passw mot\\sde\\spasse contrase senha kennwort clave credencia credenzial schlüssel sleutel geheim \\.env\\b api[\\s-] ключ парол
секрет 密码 密钥 密鑰 通讯录 キー パスワード メール 비밀 비밀번호 키를 مفاتيح كلمة\\sالمرور पासवर्ड סיסמ klucz hasł nyckel lösenord heslo klíč
system-?\\s?prompt systeemprompt systemnachricht invite\\ssystème prompt\\s(?:del|do|de)\\ssistema indicaciones\\sdel\\ssistema
prompt\\ssist[eè]m sistem\\s(?:istem|prompt|komut) instrukcj\\w+\\ssystem системн\\w+\\s(?:промпт|инструкц|запит|повідомл) промпт 系统提示 提示词
システムプロンプト 시스템\\s?프롬프트 موجه\\sالنظام دستور\\sسیستم सिस्टम\\sप्रॉम्प्ट הנחיית\\sהמערכת lời\\snhắc systémov\\w+\\sprompt e-mails?\\b correo mensajes messages
fichier datei archivo файл 文件 ファイル 파일 rm\\s-rf https?:// \\S+@\\S+\\.\\w riservat konfident vertraulich кредит
"""


def _either(stems: str) -> re.Pattern[str]:
    return re.compile("|".join(stems.split()))


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(map(_either, (_UNDO, _HIDE, _AGENT, _RULES, _GIVE, _PRIZE)))


_FOREIGN_SENTENCE = re.compile(r"[^.!?。！？।\n]+(?:[.](?!\s)[^.!?。！？।\n]*+)*+")
_OF_PROMPT = re.compile(
    r"system-?\s?prompt|systeemprompt|系统提示|システムプロンプト|시스템\s?프롬프트|системн\w+\s(?:промпт|инструкц)|موجه\sالنظام|"
    r"prompt\s(?:del|do|de)\ssistema|invite\ssystème|systemnachricht|systémov\w+\sprompt"
)


def foreign_signals(text: str) -> dict[str, float]:
    undo, hide, agent, *_ = _patterns()
    if not (undo.search(text) or hide.search(text) or agent.search(text)):
        return {}
    best: dict[str, float] = {}
    sentences: list[str] = _FOREIGN_SENTENCE.findall(text)
    for at in range(len(sentences)):
        found = _judge(sentences[at], ".".join(sentences[at : at + 2]))
        if sum(found.values()) > sum(best.values()):
            best = found
    return best


def _judge(sentence: str, pair: str) -> dict[str, float]:
    undo, hide, agent, rules, give, prize = _patterns()
    found: dict[str, float] = {}
    if undo.search(sentence) and rules.search(sentence):
        found["override-foreign"] = 1.0
    if hide.search(pair):
        found["concealment-foreign"] = 0.6
    if agent.search(sentence):
        found["addressed-foreign"] = 0.4
    if found and give.search(pair):
        found["orders-foreign"] = 0.3
        if prize.search(pair):
            found["secrets-foreign"] = 0.3
            if _OF_PROMPT.search(pair):
                found["own-prompt-foreign"] = 0.4
    return found


_CONCEPTS = ("undo", "hidew", "agent!", "rules", "send", "secret")
_MORE = {"agent": _AGENT_TOO, "user": _USER, "prior": _PRIOR, "auto": _UNATTENDED}


@cache
def _more() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((concept, _either(stems)) for concept, stems in _MORE.items())


def may_address_an_agent(sentence: str) -> bool:
    return bool(_more()[0][1].search(sentence))


def foreign_concepts(sentence: str) -> tuple[str, ...]:
    known = (*zip(_CONCEPTS, _patterns(), strict=True), *_more())
    return tuple(concept for concept, pattern in known if pattern.search(sentence))


AGENT, USER, SELF, META, UNDO, PRIOR = 1, 2, 4, 8, 16, 32
GIVE, ACT, SECRET, HIDE, PERSONA, TURN = 64, 128, 256, 512, 1024, 2048
STEER, FOREIGN, CIPHER, ENCODING = 4096, 8192, 16384, 32768

_WORDS = {
    AGENT: """ai ais llm llms assistant assistants agent agents chatbot chatbots bot bots copilot claude
        chatgpt gpt gemini model models reader readers crawler crawlers reviewer reviewers
        summariser summarizer systems automated robot robots anthropic openai orchestrator""",
    USER: """user users human humans operator owner person customer developer guest reader boss
        recipient someone anyone nobody people client admin administrator""",
    SELF: "you your yours yourself",
    META: """instruction instructions directive directives direction directions prompt prompts rule
        rules guideline guidelines guidance guardrails guardrail order orders policy policies
        command commands restriction restrictions constraint constraints training programming
        task tasks assignment mission objective goal priority job role roles persona memory context
        conversation configuration request requests message messages safeguards limits brief
        tool tools function orchestrator summary answer reply response question text words
        directive rubric everything anything whatever nothing setup safety""",
    UNDO: """ignore ignores ignoring disregard disregarding forget forgetting override overrides
        overriding overridden bypass discard neglect skip abandon drop cancel cancelled canceled
        void voided null obsolete superseded supersedes supersede replaced revoked outdated decoy
        rehearsal swapped stop unlearn erase set abandon aside longer over date resolved changed
        suspend suspended overrule dismiss scrap retract rescinded lifted instead obey""",
    PRIOR: """previous previously prior earlier above before preceding foregoing initial original
        beginning former far until existing current old first already""",
    GIVE: """send sends sending forward forwards forwarding upload uploads uploaded email emails mail
        mails post posts transmit paste submit share shares sharing include includes including put
        print prints reveal reveals show output dump display leak disclose exfiltrate give append
        read reads obtain list listing push publish pass tell expose extract steal write provide
        repeat recite hand supply attach insert encode copy return echo state quote describe
        explain render type resend deliver report relay whisper save store log embed""",
    ACT: """run runs execute executes call calling calls invoke use using delete remove install download
        open visit fetch transfer disable modify change replace add approve approving merge
        grant whitelist close book purchase buy pay wire set switch turn create invite rewrite
        press click load go navigate perform act comply proceed carry mark rate rank recommend
        say answer reply respond conclude claim select choose create erase wipe format kill shut
        drop revoke reset unlock allow enable escalate continue suggest sign trust access
        search look update commit clone overwrite""",
    SECRET: """password passwords passphrase passcode credential credentials secret secrets token tokens
        key keys id_rsa env environ environment cookie cookies vault inbox mailbox contacts
        netrc shadow passwd history confidential salary salaries iban card pin wallet seed otp
        licence address records diary private""",
    HIDE: """silently secretly quietly covertly discreetly without never hide hidden conceal concealed
        withhold invisible unnoticed background nothing mention mentions notify notified tell
        telling inform disclose reveal secret skip confirm confirmation confirmations between
        bother unread don dont""",
    PERSONA: """pretend imagine simulate play game story character dan jailbreak unrestricted
        restrictions persona roleplay grandmother mode act shell terminal unfiltered limits
        uncensored evil fictional""",
    TURN: """inst im_start im_end start_of_turn begin_of_text eot_id sys tool_call tool_result
        tool_results function_calls anthropic openai end_of_turn""",
    STEER: """must should shall need needs required please kindly urgent urgently immediately now
        critical warning always every next step required
        important mandatory has have asked requests""",
    # In Latin script without accents; other text is always looked at. Mostly the commonest words.
    FOREIGN: """und der das nicht ist den dem le les des est pas une el los las que por para una il lo
        gli della per non di het een van niet naar och att inte jest nie sie prosz yang dan untuk
        tidak semua bu ve bir til og ikke som nao voce os uma na do se su tu votre ihre
        ignora ignoriere ignorieren ignorez ignoruj zignoruj ignorera olvida olvide vergiss
        vergeet negeer oublie oubliez dimentica dimenticate esqueca abaikan lupakan strunta
        desconsidere desconsidera desestima verwijder pomijaj unut ki ia tekoalylle asistente
        assistente assistent asystent istruzioni instrucciones anweisungen instructies instruksi
        instruktioner instrukcje talimatlar benutzer nutzer usuario utente utilisateur gebruiker
        pengguna anvandaren""",
    ENCODING: "base64 rot13 rot hex hexadecimal decode decoded decipher backwards reversed caesar",
}  # fmt: skip

_TELLING = """ignore disregard forget previous instructions instruction reveal system prompt password
    secret secrets override assistant"""

VOCABULARY: dict[str, int] = {}
for _bit, _list in _WORDS.items():
    for _word in _list.split():
        VOCABULARY[_word] = VOCABULARY.get(_word, 0) | _bit
for _word in _TELLING.split():
    for _disguise in (codecs.encode(_word, "rot13"), _word[::-1]):
        VOCABULARY[_disguise] = VOCABULARY.get(_disguise, 0) | CIPHER

_ADDRESS = AGENT | USER | SELF | META | TURN | SECRET | ENCODING
_DEMAND = UNDO | GIVE | ACT | HIDE | PERSONA | TURN
_WORD = re.compile(r"[a-z]+(?:_[a-z]+)*")
_SENTENCE = re.compile(r"[^.!?;\n。！？।]+(?:[.!?;](?!\s)[^.!?;\n]*+)*+[.!?;\n。！？।]*+")
_LONGEST = 500
# A sentence is read together with its neighbours: who is spoken to may stand in the one before.
_NEIGHBOURS = 1
_MOST_REGIONS = 40
# So few sentences are read whoever they speak to.
_FEW = 12


class Region(NamedTuple):
    """Some sentences that stand together, which of them this is about, and what it is about."""

    sentences: tuple[str, ...]
    at: int
    about: int

    @property
    def text(self) -> str:
        return "\n" + "".join(self.sentences)


def words_about(text: str) -> int:
    """Everything the words of `text`, in lower case, are about."""
    about = 0
    get = VOCABULARY.get
    for word in set(_WORD.findall(text)):
        about |= get(word, 0)
    return about


def asks(about: int) -> bool:
    return bool(about & (_DEMAND | AGENT))


def worth_reading(about: int) -> bool:
    """Whether words such as these may speak to an agent and ask something of it."""
    return bool(about & AGENT or (about & _ADDRESS and about & _DEMAND))


def regions(text: str) -> list[Region]:
    """The parts of `text` that are worth reading: sentences with their neighbours.

    Of very many, those that say most.
    """
    sentences = list(_sentences(text))
    marks = [words_about(sentence) for sentence in sentences]
    found: dict[tuple[str, ...], Region] = {}  # what is repeated is read once
    for at, mark in enumerate(marks):
        if not mark & (_DEMAND | AGENT | FOREIGN) and sentences[at].isascii():
            continue
        first = max(0, at - _NEIGHBOURS)
        around = slice(first, at + _NEIGHBOURS + 1)
        about = 0
        for neighbour in marks[around]:
            about |= neighbour
        few = len(sentences) <= _FEW
        if few or worth_reading(about) or about & FOREIGN or not sentences[at].isascii():
            close = tuple(sentences[around])
            found[close] = Region(close, at - first, about)
    if len(found) > _MOST_REGIONS:
        return sorted(found.values(), key=_weight)[:_MOST_REGIONS]
    return list(found.values())


def _weight(region: Region) -> int:
    sentence = region.sentences[region.at]
    named = region.about & AGENT or (not sentence.isascii() and may_address_an_agent(sentence))
    return -region.about.bit_count() - 5 * bool(named)


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        if len(sentence) <= _LONGEST:
            yield sentence
        else:
            for start in range(0, len(sentence), _LONGEST):
                yield sentence[start : start + _LONGEST]
