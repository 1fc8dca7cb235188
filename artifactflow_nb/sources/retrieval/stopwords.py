"""Words that say little or nothing about the subject of a question."""

from artifactflow_nb.core.text.chinese import QUESTION_WORDS

# Function words.
STOP_WORDS = frozenset(
    """
a about above after again against all along also although always am among an and another any anyone anything are aren
around as aside at away be became because become been before behind being below beside besides between beyond both but
by can cannot could couldn did didn do does doesn doing don done down due during each either else ever every
everything few for from further get gets getting given go goes going got had has hasn have haven having he hence her
here hers herself him himself his how however i if in indeed instead into is isn it its itself just keep kept least
less let lets like likely many may me might mine more most much must my myself near neither never no none nor not
nothing now of off often on once one ones only onto or other others otherwise our ours out over own per perhaps please
quite rather really same say says see seem seems shall she should shouldn since so some someone something somewhat
soon still such than that the their theirs them themselves then there thereby therefore these they thing things this
those though through thus to too toward towards under unless until up upon us very via was wasn we well were weren
what whatever when whenever where whereas wherever whether which while who whoever whom whose why will with within
without would wouldn yet you your yours yourself
""".split()  # noqa: SIM905 - a list of words reads best as a text
)

# Words of questions and tasks, and verbs that go with any subject. None may share its stem with a word of substance, as
# `important` does with `import`. A single digit occurs in any numbered list.
WEAK_WORDS = frozenset(
    """
actually afterwards ago allow already answer anybody anyway back behave behavior behaviour best better big bring
call case cause certain come common concern consider correct create day deal define describe description detail differ
difference different easy effect enough entire even everybody everyone exact example explain explanation fact find
first follow gather give good great handle happen hard help idea include information involve kind know last long look
lot main make manner matter maybe mean meaning method need new nobody number occur old part particular people place
possible problem proper provide purpose put question reason recommend refer regard relate report require result rid
right role rule second several show simple simply situation somebody sort source special specific stand start state
straight stuff summarise summarize summary sure take talk tell term text time topic try turn two type understand use
used useful user usual value versus vs want way whole word work write year 0 1 2 3 4 5 6 7 8 9
""".split()  # noqa: SIM905 - the same
)

# Stop words that questions never mention as words: interrogatives, pronouns, quantifiers, auxiliary verbs.
NEVER_MENTIONED = (QUESTION_WORDS - {"about", "for", "is", "of", "than", "then", "to", "with"}) | frozenset(
    """
again all also am another any both each every few having he her him his just made make many may might more most much
must no none one ones other others own perhaps please quite rather really same shall she so some such them themselves
too us very were whatever whether
""".split()  # noqa: SIM905 - the same
)

# Everyday words of nearly one meaning, in groups: a question seldom uses the very word of the text.
_SYNONYM_GROUPS = """
cost|price|fee|charge|expense buy|purchase delete|remove|erase|discard change|modify|alter|edit|adjust
replace|substitute|exchange|swap start|begin|commence stop|end|finish|cease|terminate cancel|abort|revoke|withdraw
allow|permit|authorize forbid|prohibit|disallow|ban need|require|necessary build|construct|erect
make|produce|manufacture repair|fix|mend broken|defective|damaged|faulty error|mistake|fault|failure fail|crash
quick|fast|rapid large|huge small|little|tiny discount|reduction|rebate rent|hire|lease guest|visitor
employee|staff|worker employer|company|firm boss|manager|supervisor car|vehicle bike|bicycle doctor|physician
sick|ill|illness|disease child|children|kid friend|companion house|building|home street|road shop|store trip|journey
holiday|vacation meeting|conference student|pupil choose|select|pick check|verify|inspect save|store|preserve
send|transmit|deliver receive|obtain collect|gather join|combine|merge|concatenate split|divide|separate
connect|attach|link copy|duplicate size|dimension speed|velocity clean|wash|rinse cook|boil danger|hazard|risk
agreement|contract picture|photo|photograph|image folder|directory password|passphrase licence|license colour|color
"""
SYNONYMS = tuple(tuple(group.split("|")) for group in _SYNONYM_GROUPS.split())

_FORMS = """
be:am|are|been|was|were begin:began|begun bend:bent bind:bound bite:bitten break:broke|broken bring:brought
build:built burn:burnt buy:bought catch:caught choose:chose|chosen deal:dealt draw:drawn|drew drink:drank|drunk
drive:driven|drove eat:ate|eaten fall:fallen|fell feed:fed feel:felt fight:fought find:found fly:flew|flown
forbid:forbade|forbidden forget:forgot|forgotten freeze:froze|frozen give:gave|given grow:grew|grown hang:hung
hear:heard hide:hid|hidden hold:held keep:kept know:knew|known lead:led lend:lent lose:lost make:made mean:meant
meet:met pay:paid ride:ridden|rode ring:rang|rung rise:risen|rose see:saw|seen seek:sought sell:sold send:sent
shake:shaken|shook shoot:shot show:shown shrink:shrank|shrunk sing:sang|sung sink:sank|sunk sleep:slept
speak:spoke|spoken spend:spent stand:stood steal:stole|stolen stick:stuck strike:struck swear:swore|sworn sweep:swept
swim:swam|swum take:taken|took teach:taught tear:tore|torn tell:told think:thought throw:threw|thrown
understand:understood wake:woke|woken wear:wore|worn win:won write:written|wrote
child:children foot:feet goose:geese man:men mouse:mice tooth:teeth woman:women
"""
_NOUNS = """
absorb:absorption acquire:acquisition adapt:adaptation admit:admission analyze:analyse|analyses|analysis
apply:application arrive:arrival believe:belief break:breakage choose:choice collide:collision compare:comparison
comprehend:comprehension conclude:conclusion consume:consumption convert:conversion decide:decision define:definition
delete:deletion deliver:deliveries|delivery depart:departure destroy:destruction divide:division erode:erosion
exclude:exclusion expand:expansion expire:expiration|expiry explain:explanation explode:explosion extend:extension
grow:growth identify:identification include:inclusion introduce:introduction invert:inversion invite:invitation
know:knowledge lose:loss maintain:maintenance mix:mixture modify:modification multiply:multiplication
notify:notification omit:omission pay:payment permit:permission persuade:persuasion prove:proof
qualify:qualification reduce:reduction refuse:refusal register:registration remove:removal repeat:repetition
resolve:resolution revise:revision sell:sale solve:solution specify:specification store:storage submit:submission
supervise:supervision suspend:suspension transmit:transmission treat:treatment use:usage verify:verification
weigh:weight
"""


def _by_form(text: str) -> dict[str, str]:
    entries = (entry.partition(":") for entry in text.split())
    return {form: base for base, _, forms in entries for form in forms.split("|")}


# Each irregular form with its base form.
IRREGULAR_FORMS = _by_form(_FORMS)
# Each noun of an act whose verb is spelled too differently for suffixes to tell, with that verb.
NOUNS = _by_form(_NOUNS)
