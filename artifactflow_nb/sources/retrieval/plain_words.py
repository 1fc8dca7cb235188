"""Everyday words in questions, each with the words that a text may use instead.

The list has general English and terms of programming, in one direction: a text about the `maximum` answers a question
about the `biggest` number, but not vice versa. A word may have several meanings; the other words of the question decide
between them.
"""

_LINES = """
abort:cancel|terminate|interrupt|stop absent:missing accent:unicode access:permission accident:injury|incident
accompany:attend accuracy:precision accurate:exact achieve:reach acquire:obtain|lock actual:real adapt:customize
add:append|insert|extend|include|plus|accumulate|concatenate|increment address:location|url adjacent:consecutive
adult:age advance:next|increment afford:cost afterwards:later age:old agree:accept|consent aim:goal|purpose|target
alarm:alert|warning align:justify allow:permit|accept|valid|illegal|forbidden alphabetical:lexicographic
alter:modify|change|immutable alternative:default amount:number|count|quantity analyze:parse annotate:decorator
annul:cancel|revoke anonymous:lambda answer:reply|respond|response anyway:unconditionally
apart:separate|split|components apologize:sorry appear:occur|display|occurrence append:concatenate apply:use
appointment:meeting argue:dispute argument:parameter|operand|signature arrange:order|sort|permutation
array:list|sequence arrive:receive ask:request|query|prompt assemble:build|join assign:bind assumption:assert
async:asynchronous|coroutine asynchronous:async|coroutine attach:fasten|connect|append|bind attempt:try|retry
attribute:property|member|descriptor|slot author:writer automatic:implicit average:mean avoid:prevent|suppress
await:coroutine award:prize baby:infant|child background:asynchronous|thread|daemon backslash:escape
backwards:reverse|negative|monotonic bad:invalid|malformed ban:forbid|prohibit bar:forbid bargain:discount
base:hexadecimal|octal|parent|superclass begin:start|first|leading|prefix|prepend belong:member|membership
big:large|size|overflow bigger:larger|greater|compare biggest:largest|maximum|max bill:invoice|payment
binary:bitwise|bytes|executable bind:assign|precedence bit:binary|bitwise blank:empty|whitespace|space
block:suite|clause|lock blueprint:class body:block|suite boil:heat bonus:reward book:reserve boolean:logical|truth
border:boundary borrow:loan|lend bottom:last|lowest bounds:limit|range box:container
brackets:parentheses|square|parenthesis|subscript branch:clause
break:terminate|interrupt|split|invalid|corrupted|faulty|damaged|newline brief:short|summary bring:carry
bubble:propagate bug:error|defect build:construct|create|compile|constructor bunch:group|collection bundle:archive
buy:purchase|order bytes:encoding calculate:compute|evaluate|arithmetic|expression call:invoke|callable|caller|stack
callback:callable caller:call camera:photo cancel:abort capital:uppercase|titlecase car:vehicle|parking
care:maintenance|caution cartesian:product case:caseless caseless:casefold cash:payment|money cast:coerce|convert
catch:except|handle|handler|intercept cease:stop|terminate ceiling:maximum|limit center:align certain:condition
chance:probability change:modify|alter|update|mutate|replace|convert|customize|immutable|mutable|override|delta
changeable:mutable characters:letters|encoding|symbol charset:encoding chat:conversation cheap:low
check:test|verify|validate|assert|membership checksum:digest|hash chief:head|lead child:subclass|derived|subprocess
choose:select|pick|specify|sample|enum chop:truncate|split|strip|shorten chunk:part|block|piece cipher:encrypt
claim:request class:metaclass classify:category clean:strip|clear|remove cleanup:finalization clear:remove|explicit
clever:smart clock:monotonic clone:copy close:terminate|shut|approximate closest:nearest club:association|society
coat:layer cold:temperature|frost colleague:staff|employee collect:gather|accumulate|container
column:field|width|delimiter combine:join|merge|concatenate|chained|compound|union comes:returned
comma:decimal|delimiter|separator|thousands command:instruction|statement|process|subprocess comment:hash|docstring
commit:transaction common:intersection compare:lexicographic|diff compensate:refund|reimburse compile:translate
complain:error|warning|raise complaint:objection complete:finish|whole|entire compress:archive
computer:machine|host|evaluate conceal:hide|suppress concurrency:parallel|asynchronous|semaphore
condition:test|boolean|ternary confirm:verify|approval confusing:ambiguous connect:join|attach|socket
constant:immutable|literal construct:create constructor:initialize consume:use|exhausted contact:reach|phone|email
contain:include|membership|collection|enclosing contest:competition|race continue:next|resume|proceed
control:manage|customize|intercept convert:transform|coerce cooperate:collaborate copy:duplicate|clone|shallow
coroutine:async|await correct:right|valid costs:price|fee|expense count:number|occurrences|total|enumerate|length
country:locale couple:two|pair courtesy:polite crash:fail|error|exception
create:make|construct|new|generate|constructor|define|initialize criterion:condition cron:schedule crop:truncate
crossing:intersection crowd:people crypto:secure curly:braces current:present customer:client|overload
cut:truncate|split|slice|shorten|strip cycle:circular|iteration|loop daily:day damage:break|corrupt
dangerous:hazard|risk|unsafe data:values date:day|time|timestamp day:weekday dead:terminated deadline:date deal:handle
debt:owed debugging:debugger|breakpoint|trace decide:determine|choose decimal:float|point|fraction|precision
declare:annotation|define decreasing:descending deep:recursively default:initial|unspecified delay:defer
delete:remove|del|erase|discard|unlink|destroy delimiter:separator depend:require|conditional derived:subclass
destination:target destroy:delete|remove destructor:finalizer|destroyed detect:find|determine|recognize|guess
deviation:variance dict:dictionary|mapping dictionary:mapping|dict|hashable|lexicographic die:terminate|exit
differ:distinct|compare|subtract|delta|diff digest:hash digits:decimal|numeric|number|precision
direction:order|explicit directory:folder dirty:unclean disable:deactivate disappear:removed|deleted
discard:drop|remove display:print|show|output|format|representation dispose:discard dissimilar:different
distance:offset divide:quotient|split documentation:docstring dots:ellipsis|period|relative|qualified
double:twice|two|duplicate doubt:uncertain drive:disk drop:remove|omit|discard|delete|ignore dump:serialize
dunder:special duplicate:repeated|twice|copy duration:time|length|elapsed duty:obligation|task|responsible
earlier:preceding early:premature earn:salary|wage edge:boundary edit:modify|change|immutable eight:octal elect:vote
element:item|member|membership email:mail|message|attachment emergency:accident|alarm emoji:unicode employ:hire
empty:zero|blank|clear|exhausted|null enclosing:nonlocal encoding:charset
end:last|final|stop|finish|terminate|trailing|expire|suffix|extension|append|exit|sentinel|deque endless:infinite
enough:sufficient ensure:check|guarantee|assert enter:begin|input entire:whole entry:item|element epoch:timestamp
equal:identical|compare|match equivalent:equal erase:delete|remove error:exception|raise|failure|traceback
escape:backslash|quote everywhere:global exact:precision examine:inspect|test example:instance|doctest
exceed:larger|greater exception:error|handler exchange:replace exclude:filter exclusive:lock excuse:reason
execute:run|evaluate exist:present exit:terminate|quit|leave expense:cost expire:timeout explain:describe explode:fail
extends:subclass external:subprocess extra:additional|excess extract:unpack|decompress
fail:error|exception|raise|failure failure:error|exception fallback:default false:boolean|truth falsy:false|truth
fast:efficient|speed faster:efficient|speed|optimize fault:exception fee:charge|price fetch:retrieve field:attribute
fifo:queue file:path|module|pathname|filename|attachment fill:pad|placeholder filter:select final:last
find:search|locate|determine|lookup|resolve|occurrence fine:penalty finger:hand fingerprint:digest|hash
finish:end|complete|terminate|exhausted fire:dismiss first:leading|order|precede|priority|initial
fit:width|match|shorten fix:repair|correct|constant|immutable|static flip:reverse|invert|swap
folder:directory|package|pathname follow:trace|subsequent|successive food:meal
forbid:prohibit|disallow|reserved|illegal force:require|coerce forever:infinite forget:discard|lost|missing
formatting:interpolation|specifier formula:expression fraction:decimal|denominator|floating free:destroy|release
freeze:immutable fresh:new fridge:refrigerator front:leading|prefix|prepend full:qualified
function:callable|method|local fund:money garbage:destroy|unreachable gather:collect generate:create|produce|yield
getter:descriptor gift:donation|present give:assign|specify glue:join|concatenate gone:missing|removed grab:acquire
grammar:syntax greater:larger|compare group:collection|combination grow:increase|extend|accumulate|expand
guarantee:ensure|warranty guard:condition guess:determine|infer guest:visitor guide:manual|instruction half:middle
halt:stop|breakpoint hand:pass handle:catch|process hang:block|wait|deadlock happen:occur hardware:machine|device
hash:dictionary|digest hashmap:mapping|dictionary heavy:weight|load help:support|assist|docstring hex:hexadecimal
hide:suppress|private|ignore|shadow high:maximum|level highest:maximum hint:tip|advice|annotation history:past|earlier
hold:contain|store holder:container home:house hook:intercept host:hostname https:certificate huge:large
hurt:injured|injury identical:equal|identity identify:determine|name idle:inactive ignore:suppress|skip|discard
ill:sick illegal:invalid|error|forbidden immediately:directly immutable:unchangeable|changed improve:better
include:contain|import income:revenue|received incomplete:abstract increase:increment|larger|ascending
indent:block|suite index:enumerate|subscript inform:notify inherit:subclass|base|derived initialize:constructor
injured:hurt|accident inline:lambda inner:nested|enclosed|local input:argument|parameter|stdin insensitive:caseless
insert:append|interpolation inside:contained|local|nested|substring inspect:examine instance:object
instantiate:constructor instruction:statement int:integer integer:floor interface:protocol internal:private
interrupt:signal|break|abort interval:range invoke:callable item:element|member iterate:loop|iterable jam:stuck|block
job:task|work|position join:concatenate|combine|merge jump:skip|continue|goto|step justify:align
key:password|token|dictionary|hashable|subscription keyboard:stdin keyword:named|reserved kid:child
kill:terminate|stop|abort|destroy|signal kind:type|mode lab:laboratory language:locale laptop:computer large:overflow
larger:greater|bigger largest:biggest|maximum|max last:final|end|persistent|trailing late:delay|overdue
later:defer|schedule|subsequent launch:start|run|subprocess law:rule|regulation layout:format lazy:defer|generator
lead:head|chair leave:exit|terminate|omit|quit left:align|leading|omit|remainder|remaining leftover:remaining
legal:valid|allowed lend:loan|borrow length:len|number|size letter:character|alphabetic|lowercase|uppercase|prefix
library:module|package likelihood:probability limit:maximum|restrict|bound|boundary|timeout|truncate|semaphore
line:row|align|newline|statement|wrap linebreak:newline link:connect|reference|symlink|url
list:sequence|collection|container|iterable listen:receive literal:display load:import|unpickle local:scope
locate:find|search|pathname lock:acquire|block lodge:submit log:record logical:boolean
long:duration|length|timeout|width look:access|representation lookup:resolve loop:iterate|circular|iterable
lost:discarded|missing|unreachable|overwritten lower:lowercase lowercase:lower|casefold|caseless
lowest:minimum|smallest lunch:meal|break machine:device|computer magic:special mail:message|email main:primary
make:create|define malformed:invalid manage:handle|control mandatory:required manual:handbook|guide mapping:dictionary
mark:flag|label marker:sentinel match:equal|pattern|corresponding math:arithmetic maximum:largest|max|limit
meaning:semantics member:belong|attribute|element memoize:cache memory:ram|storage|buffer|cache|slot|garbage
mend:repair merge:combine|join|update|concatenate|union message:text middle:center|median|intermediate
minimum:smallest|min minus:subtraction|negative|sign missing:absent|omitted|default|unbound|undefined|unspecified
mistake:error mix:combine|shuffle mod:modulo mode:permission modify:change|alter|mutate|immutable|mutable|mtime
module:global|import modulo:remainder money:fee|cost|payment|amount monthly:month move:rename|transfer|shift
multiple:chained|compound multiply:times|product|repetition mutable:changeable|modify mutex:lock
name:identifier|variable|keyword|alias|bind|namespace|filename nearest:rounded neat:pretty|format needed:optional
negate:invert negative:minus neighbouring:consecutive|adjacent nested:inside|enclosing|compound|recursive
network:socket newcomer:beginner newest:latest|recent newline:line next:iterator|adjacent|subsequent|successive
nicely:format|pretty nickname:alias noise:sound notice:detect notify:inform
number:numeric|integer|count|arithmetic|range|decimal|digit|enumerate|index numeric:digit object:instance
obligatory:required|mandatory obsolete:deprecated obtain:return occur:happen|raised odds:probability|weights
offer:provide offline:network old:deprecated|expire oldest:earliest omit:leave|default|unspecified|optional open:start
operate:run|overload optional:default|argument|flag order:sequence|sort|precedence|evaluation|lexicographic|positional
original:source|initial outage:failure outdated:deprecated outer:enclosing|outside|nonlocal output:redirect|stdout
outside:outer|enclosing|external overlap:intersection overload:override|operator|special
override:replace|redefine|customize overrule:override overwrite:replace|redefine owe:pay owner:responsible|class
pack:collect|archive|compress package:module pad:justify page:browser|html pair:two|tuple|combination
parallel:concurrent|thread parameter:argument|signature parent:base|superclass|enclosing|inheritance|relative
parenthesis:bracket part:piece|component|clause|fraction|slice|substring participate:attend particular:specific
passed:argument|iteration|propagate|elapsed password:secret|token|secure paste:insert path:pathname
pattern:match|regex pause:sleep|wait|suspend|breakpoint payment:fee people:persons|members|users percent:percentage
perform:execute period:dot permanent:persistent permit:allow|right|access|accept person:member|user
phone:telephone|call photo:picture|image pick:choose|select|sample pickle:serialize
piece:part|component|element|slice|substring place:position|location|index|insert|precision
placeholder:replacement|template|field|interpolation plain:simple plan:schedule plus:addition|sign
point:position|reference portion:slice position:index|offset|align|order postpone:delay|defer power:exponent
precedence:priority precise:exact predefined:builtin preset:partial pretty:format|indent prevent:avoid|forbid|suppress
previous:earlier|preceding print:display|output|format|representation priority:precedence
private:mangling|hidden|underscore prize:award probability:weights problem:error|exception process:handle|handler
produce:create|generate|return|yield production:optimization program:application|script|process|subprocess|executable
prohibit:forbid promise:guarantee prompt:input property:attribute|descriptor protect:lock|safe pull:extract
punish:penalty put:insert|add|store|assign question:query quick:fast quickly:fast|efficient quiet:silent|suppress
quit:exit|terminate|stop|leave|resign quotes:string|literal|quotation quotient:division radix:base rain:weather|wet
raise:throw random:arbitrary range:interval|slice rank:order ratio:fraction raw:bytes reach:access|propagate
read:load|input|access|interpret|parse|retrieve readonly:frozen|immutable ready:available real:floating receive:accept
recent:latest|new recognise:detect|guess record:log|store|namedtuple|dataclass recursive:circular redefine:override
reduce:decrease|compress refund:returned|reimburse refuse:reject|deny register:sign reject:refuse
release:free|unlock|version relocate:move remainder:modulo remember:store|preserve|cache|save
remove:delete|discard|strip|clear|destroy rename:name|alias renew:extend reorder:shuffle
repeat:duplicate|times|loop|successive replace:substitute|expand|immutable|override|redefine|overwritten
report:message request:query require:need reservation:booking|keyword resolve:lookup responsible:charge|duty
rest:remaining|remainder|modulo restart:start|reset restore:unpickle restrict:limit result:value|return
resume:continue retain:preserve return:give reuse:cache reverse:backwards|descending|invert|reflected revoke:cancel
ride:drive right:align|reflected|trailing|permission risky:unsafe rotate:rollover|shift roughly:approximate
round:nearest|precision|floor|iteration|parenthesis|truncate row:sequence|consecutive rubbish:garbage rule:regulation
run:execute|invoke|evaluate|accumulate|exhaust runtime:dynamic safe:escape|secure salary:pay|wage
save:store|write|persistent|serialize scale:size schedule:time|plan scientific:exponent scope:namespace|visible
scramble:shuffle scratch:temporary screen:display|terminal|stdout script:program search:find|lookup
secret:private|password|token|encrypt secretly:implicit section:slice secure:safe select:choose|filter
send:transmit|deliver separate:split|delimiter|sep|thousands sequence:iterable|order series:sequence server:hostname
set:assign|bind|collection|initialize|specify|environment setter:descriptor setup:initialize
several:multiple|chained|unpack shape:pattern share:common|global|intersection shop:store
shortcut:abbreviation|alias|symlink shorten:truncate show:display|print|representation shrink:reduce|compress
shut:close|stop sick:ill side:operand sign:operator|symbol signal:raise signup:register silence:suppress|ignore
silent:suppress|ignore simultaneous:concurrent|parallel|semaphore|lock single:unary site:url|browser
sixteen:hexadecimal size:length|width skip:continue|ignore|omit slash:backslash sleep:suspend|delay slow:time
small:little|short|lowercase smaller:compare|compress smallest:minimum|min sort:order|kind|ascending source:code
space:whitespace|blank|width|indentation|pad special:escape|reserved speed:optimize spell:write|name spend:cost
split:separate|divide|parse|unpack spot:detect|find spread:propagate|unpack|variance square:power|bracket
squeeze:compress ssl:certificate stack:traceback staff:employee standard:builtin|default star:unpack|glob
start:execute|initialize|leading|prefix state:specify stay:remain step:stride|increment sticky:persistent stolen:theft
stop:terminate|end|break|halt|quit|abort|breakpoint|exit|suspended store:save|disk|assign|cache strange:unexpected
street:road stride:step string:text|str|representation strip:remove stronger:precedence stuck:block|deadlock
student:pupil style:format subclass:derived|inherit subfolders:recursive subscribe:join subscript:index subset:sample
substitute:replace substring:slice subtract:minus|difference succeed:success suffix:ending|extension suite:block
sum:total|add|amount|addition|accumulate superclass:base|parent suppress:ignore|hide sure:assert|guarantee
surface:shallow surround:enclose|context swallow:discard|suppress swap:exchange|replace|reflected
switch:toggle|change|flag|swap symbol:sign|operator|character syntax:notation tab:whitespace|indentation table:mapping
tail:end|last take:accept|remove|elapsed tally:counter task:job teach:training team:group tell:determine
temp:temporary template:abstract|class|pattern temporary:buffer|intermediate terminate:end|stop|exit|shell
ternary:conditional test:check|verify|condition|predicate|assertion text:string|substring theft:stolen
thread:concurrent three:ellipsis throw:raise|exception|discard throwaway:temporary ticket:fare tidy:clean|format
tie:equal tighter:precedence timeout:expire timer:schedule times:multiply|occurrences|duration|timeout|repeat
tired:rest together:combine|join|concatenate toilet:restroom tool:utility top:highest|first total:sum
touch:modify|access trace:traceback|stack traceback:stack trailing:end training:course transform:convert
translate:compile|convert treat:handle tree:hierarchy|recursive trial:test trigger:invoke|raise
trim:strip|truncate|shorten trouble:problem|error true:truth|boolean|nonzero trusted:certificate truth:true|boolean
tune:adjust turn:convert twice:two|duplicate two:multiple type:class|kind|annotation|metaclass typo:misspelled
umlaut:unicode|non-ASCII unassigned:unbound uncaught:unhandled unchangeable:immutable|constant|frozen
unclear:ambiguous uncompress:decompress undefined:NameError|unbound underscore:mangle|wildcard understand:interpret
undo:revert|rollback unequal:different unfinished:pending unicode:encoding unimplemented:abstract unindent:dedent
union:merge unique:distinct|sample|uuid unite:join|merge|union unknown:undefined unlimited:infinite|arbitrary
unlock:free|release unnamed:positional|anonymous unpack:extract|decompress unpredictable:undefined|unspecified
unused:garbage unusual:special unzip:decompress|extract update:modify|change|merge upper:uppercase uppercase:upper
urgent:immediate usable:available use:access|import usual:default|normal utc:timezone utf:encoding
vacation:holiday|leave value:object|argument|literal|operand vanish:removed|deleted
variable:name|identifier|attribute|environment|target vehicle:car verify:check|assert version:release visible:scope
visitor:guest volunteer:helper vote:elect|majority wait:block|sleep|suspend|timeout|queue walk:iterate wallet:money
warm:heat|temperature wash:clean watch:observe|monitor|display way:mode weather:rain|wind web:url|browser|html
weekly:week weighted:weights weird:special whitespace:indentation whole:entire|integer wide:width width:size|pad
wildcard:glob win:winner wipe:clear|delete word:keyword work:evaluate worker:employee workplace:office wrap:decorator
wrapper:decorator write:define|notation|syntax|literal wrong:error|invalid|failure yearly:annual|year yes:boolean
yield:produce|generator zero:negative|nonzero|pad zip:archive|compress zone:timezone
"""


PLAIN_WORDS = {word: tuple(others.split("|")) for word, _, others in (entry.partition(":") for entry in _LINES.split())}
