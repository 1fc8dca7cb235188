"""Everyday words of questions, each with the words that a text may use instead.

General English and the terms of programming, in one direction: a question about the `biggest` number is answered by a
text about the `maximum`, but one about the maximum is not about everything big. A word may have several meanings; the
other words of the question decide between them.
"""

_LINES = """
abort:cancel|terminate|interrupt|stop absent:missing accent:unicode accident:injury|incident accompany:attend
accuracy:precision achieve:reach acquire:obtain|lock actual:real adapt:customize
add:append|insert|extend|include|plus|accumulate|concatenate|increment address:location adult:age
advance:next|increment afford:cost afterwards:later age:old agree:accept|consent aim:goal|purpose|target
alarm:alert|warning align:justify allow:permit|accept alphabetical:lexicographic alter:modify|change|immutable
alternative:default amount:number|count|quantity analyze:parse annotate:decorator annul:cancel|revoke anonymous:lambda
answer:reply|respond|response apart:separate|split|components apologize:sorry appear:occur|display|occurrence
append:concatenate apply:use appointment:meeting argue:dispute argument:parameter|operand|signature arrange:order|sort
array:list|sequence arrive:receive ask:request|query|prompt assemble:build|join assign:bind assumption:assert
async:asynchronous|coroutine asynchronous:async|coroutine attach:fasten|connect|append|bind attempt:try|retry
attribute:property|member|descriptor|slot author:writer automatic:implicit avoid:prevent|suppress await:coroutine
award:prize baby:infant|child background:asynchronous|thread backslash:escape backwards:reverse|negative
bad:invalid|malformed ban:forbid|prohibit bar:forbid bargain:discount base:hexadecimal|octal|parent|superclass
begin:start|first|leading|prefix belong:member|membership big:large|size|overflow bigger:larger|greater|compare
biggest:largest|maximum|max bill:invoice|payment binary:bitwise|bytes bind:assign|precedence bit:binary|bitwise
blank:empty|whitespace|space block:suite|clause blueprint:class body:block|suite boil:heat bonus:reward book:reserve
boolean:logical|truth border:boundary borrow:loan|lend bottom:last|lowest bounds:limit|range box:container
brackets:parentheses|square|parenthesis|subscript branch:clause
break:terminate|interrupt|split|invalid|corrupted|faulty|damaged|newline brief:short|summary bring:carry
bubble:propagate bug:error|defect build:construct|create|compile|constructor bunch:group|collection buy:purchase|order
bytes:encoding calculate:compute|evaluate|arithmetic|expression call:invoke|callable|caller|stack callback:callable
caller:call camera:photo cancel:abort capital:uppercase|titlecase car:vehicle|parking care:maintenance|caution
case:caseless caseless:casefold cash:payment|money cast:coerce|convert catch:except|handle|handler|intercept
cease:stop|terminate ceiling:maximum|limit center:align certain:condition chance:probability
change:modify|alter|update|mutate|replace|convert|customize|immutable|mutable|override changeable:mutable
characters:letters|encoding|symbol charset:encoding chat:conversation cheap:low
check:test|verify|validate|assert|membership chief:head|lead child:subclass|derived choose:select|pick|specify
chop:truncate|split|strip|shorten chunk:part|block|piece cipher:encrypt claim:request class:metaclass
classify:category clean:strip|clear|remove cleanup:finalization clear:remove|explicit clever:smart clone:copy
close:terminate|shut club:association|society coat:layer cold:temperature|frost colleague:staff|employee
collect:gather|accumulate|container column:field|width combine:join|merge|concatenate|chained|compound|union
comes:returned comma:decimal|delimiter|separator|thousands command:instruction|statement comment:hash|docstring
common:intersection compare:lexicographic compensate:refund|reimburse compile:translate complain:error|warning|raise
complaint:objection complete:finish|whole|entire computer:machine|host|evaluate conceal:hide|suppress
concurrency:parallel|asynchronous condition:test|boolean|ternary confirm:verify|approval confusing:ambiguous
connect:join|attach constant:immutable|literal construct:create constructor:initialize consume:use|exhausted
contact:reach|phone|email contain:include|membership|collection|enclosing contest:competition|race
continue:next|resume|proceed control:manage|customize|intercept convert:transform|coerce cooperate:collaborate
copy:duplicate|clone|shallow coroutine:async|await correct:right|valid costs:price|fee|expense
count:number|occurrences|total|enumerate|length couple:two|pair courtesy:polite crash:fail|error|exception
create:make|construct|new|generate|constructor|define|initialize criterion:condition crop:truncate
crossing:intersection crowd:people curly:braces current:present customer:client|overload
cut:truncate|split|slice|shorten|strip cycle:circular|iteration|loop daily:day damage:break|corrupt
dangerous:hazard|risk|unsafe data:values date:day|time dead:terminated deadline:date deal:handle debt:owed
debugging:debugger|breakpoint|trace decide:determine|choose decimal:float|point|fraction|precision
declare:annotation|define decreasing:descending default:initial|unspecified delay:defer
delete:remove|del|erase|discard|unlink|destroy delimiter:separator depend:require|conditional derived:subclass
destination:target destroy:delete|remove destructor:finalizer|destroyed detect:find|determine|recognize
dict:dictionary|mapping dictionary:mapping|dict|hashable|lexicographic die:terminate|exit
differ:distinct|compare|subtract digits:decimal|numeric|number|precision direction:order|explicit directory:folder
dirty:unclean disable:deactivate disappear:removed|deleted discard:drop|remove
display:print|show|output|format|representation dispose:discard dissimilar:different distance:offset
divide:quotient|split documentation:docstring dots:ellipsis|period|relative|qualified double:twice|two|duplicate
doubt:uncertain drive:disk drop:remove|omit|discard|delete|ignore dump:serialize dunder:special
duplicate:repeated|twice|copy duration:time|length duty:obligation|task|responsible early:premature earn:salary|wage
edge:boundary edit:modify|change|immutable eight:octal elect:vote element:item|member|membership email:mail|message
emergency:accident|alarm emoji:unicode employ:hire empty:zero|blank|clear|exhausted|null enclosing:nonlocal
end:last|final|stop|finish|terminate|trailing|expire|suffix|extension|append|exit|sentinel endless:infinite
enough:sufficient ensure:check|guarantee|assert enter:begin|input entire:whole entry:item|element
equal:identical|compare|match equivalent:equal erase:delete|remove error:exception|raise|failure|traceback
escape:backslash|quote everywhere:global exact:precision examine:inspect|test example:instance exceed:larger|greater
exception:error|handler exchange:replace exclude:filter excuse:reason execute:run|evaluate exist:present
exit:terminate|quit|leave expense:cost expire:timeout explain:describe explode:fail extends:subclass
extra:additional|excess extract:unpack fail:error|exception|raise|failure failure:error|exception fallback:default
false:boolean|truth falsy:false|truth fast:efficient|speed faster:efficient|speed|optimize fault:exception
fee:charge|price fetch:retrieve field:attribute file:path|module fill:pad|placeholder filter:select final:last
find:search|locate|determine|lookup|resolve|occurrence fine:penalty finger:hand
finish:end|complete|terminate|exhausted fire:dismiss first:leading|order|precede|priority fit:width|match
fix:repair|correct|constant|immutable|static flip:reverse|invert|swap folder:directory|package follow:trace food:meal
forbid:prohibit|disallow|reserved force:require|coerce forever:infinite forget:discard|lost|missing
formatting:interpolation|specifier formula:expression fraction:decimal|denominator|floating free:destroy|release
freeze:immutable fresh:new fridge:refrigerator front:leading|prefix full:qualified function:callable|method|local
fund:money garbage:destroy|unreachable gather:collect generate:create|produce|yield getter:descriptor
gift:donation|present give:assign|specify glue:join|concatenate gone:missing|removed grab:acquire grammar:syntax
greater:larger|compare group:collection grow:increase|extend|accumulate|expand guarantee:ensure|warranty
guard:condition guess:determine|infer guest:visitor guide:manual|instruction half:middle halt:stop|breakpoint
hand:pass handle:catch|process hang:block|wait|deadlock happen:occur hardware:machine|device hash:dictionary
hashmap:mapping|dictionary heavy:weight|load help:support|assist|docstring hex:hexadecimal
hide:suppress|private|ignore|shadow high:maximum|level highest:maximum hint:tip|advice|annotation history:past|earlier
hold:contain|store holder:container home:house hook:intercept huge:large hurt:injured|injury identical:equal|identity
identify:determine|name idle:inactive ignore:suppress|skip|discard ill:sick illegal:invalid|error immediately:directly
immutable:unchangeable|changed improve:better include:contain|import income:revenue|received incomplete:abstract
increase:increment|larger|ascending indent:block|suite index:enumerate|subscript inform:notify
inherit:subclass|base|derived initialize:constructor injured:hurt|accident inline:lambda inner:nested|enclosed|local
input:argument|parameter insensitive:caseless insert:append|interpolation inside:contained|local|nested|substring
inspect:examine instance:object instantiate:constructor instruction:statement int:integer integer:floor
interface:protocol internal:private interrupt:signal|break|abort interval:range invoke:callable item:element|member
iterate:loop|iterable jam:stuck|block job:task|work|position join:concatenate|combine|merge
jump:skip|continue|goto|step justify:align key:password|token|dictionary|hashable|subscription keyword:named|reserved
kid:child kill:terminate|stop|abort|destroy kind:type|mode lab:laboratory laptop:computer large:overflow
larger:greater|bigger largest:biggest|maximum|max last:final|end|persistent|trailing late:delay|overdue later:defer
launch:start|run law:rule|regulation layout:format lazy:defer|generator lead:head|chair leave:exit|terminate|omit|quit
left:align|leading|omit|remainder leftover:remaining lend:loan|borrow length:len|number|size
letter:character|alphabetic|lowercase|uppercase|prefix library:module|package
limit:maximum|restrict|bound|boundary|timeout|truncate line:row|align|newline|statement|wrap linebreak:newline
link:connect|reference list:sequence|collection|container|iterable listen:receive literal:display load:import
local:scope locate:find|search lock:acquire|block lodge:submit log:record logical:boolean
long:duration|length|timeout|width look:access|representation lookup:resolve loop:iterate|circular|iterable
lost:discarded|missing|unreachable lower:lowercase lowercase:lower|casefold|caseless lowest:minimum|smallest
lunch:meal|break machine:device|computer magic:special mail:message|email main:primary make:create|define
malformed:invalid manage:handle|control mandatory:required manual:handbook|guide mapping:dictionary mark:flag|label
marker:sentinel match:equal|pattern math:arithmetic maximum:largest|max|limit meaning:semantics
member:belong|attribute|element memory:ram|storage|buffer|cache|slot mend:repair
merge:combine|join|update|concatenate|union message:text middle:center minimum:smallest|min
minus:subtraction|negative|sign missing:absent|omitted|default|unbound|undefined|unspecified mistake:error mix:combine
mod:modulo modify:change|alter|mutate|immutable|mutable module:global|import modulo:remainder
money:fee|cost|payment|amount monthly:month move:rename|transfer|shift multiple:chained|compound
multiply:times|product|repetition mutable:changeable|modify name:identifier|variable|keyword|alias|bind|namespace
nearest:rounded neat:pretty|format needed:optional negate:invert negative:minus nested:inside|enclosing|compound
newcomer:beginner newest:latest|recent newline:line next:iterator nicely:format|pretty nickname:alias noise:sound
notice:detect notify:inform number:numeric|integer|count|arithmetic|range|decimal|digit|enumerate|index numeric:digit
object:instance obligatory:required|mandatory obsolete:deprecated obtain:return occur:happen offer:provide
offline:network old:deprecated|expire oldest:earliest omit:leave|default|unspecified|optional open:start
operate:run|overload optional:default|argument|flag order:sequence|sort|precedence|evaluation|lexicographic|positional
original:source outage:failure outdated:deprecated outer:enclosing|outside|nonlocal output:redirect
outside:outer|enclosing|external overlap:intersection overload:override|operator|special
override:replace|redefine|customize overrule:override overwrite:replace|redefine owe:pay owner:responsible|class
pack:collect package:module pad:justify pair:two|tuple parallel:concurrent|thread parameter:argument|signature
parent:base|superclass|enclosing|inheritance|relative parenthesis:bracket
part:piece|component|clause|fraction|slice|substring participate:attend particular:specific
passed:argument|iteration|propagate password:secret paste:insert pattern:match pause:sleep|wait|suspend|breakpoint
payment:fee people:persons|members|users percent:percentage perform:execute period:dot permanent:persistent
permit:allow|right|access|accept person:member|user phone:telephone|call photo:picture|image pick:choose|select
piece:part|component|element|slice|substring place:position|location|index|insert|precision
placeholder:replacement|template|field|interpolation plain:simple plan:schedule plus:addition|sign
point:position|reference portion:slice position:index|offset|align|order postpone:delay|defer power:exponent
precedence:priority predefined:builtin pretty:format prevent:avoid|forbid|suppress previous:earlier
print:display|output|format|representation priority:precedence private:mangling|hidden|underscore prize:award
problem:error|exception process:handle|handler produce:create|generate|return|yield production:optimization
program:application|script prohibit:forbid promise:guarantee prompt:input property:attribute|descriptor
protect:lock|safe punish:penalty put:insert|add|store|assign question:query quick:fast quickly:fast|efficient
quiet:silent|suppress quit:exit|terminate|stop|leave|resign quotes:string|literal|quotation quotient:division
radix:base rain:weather|wet raise:throw random:arbitrary range:interval|slice rank:order ratio:fraction raw:bytes
reach:access|propagate read:load|input|access|interpret|parse|retrieve readonly:frozen|immutable ready:available
real:floating receive:accept recent:latest|new recognise:detect record:log|store recursive:circular redefine:override
reduce:decrease refund:returned|reimburse refuse:reject|deny register:sign reject:refuse release:free|unlock|version
relocate:move remainder:modulo remember:store|preserve|cache|save remove:delete|discard|strip|clear|destroy
rename:name|alias renew:extend repeat:duplicate|times|loop replace:substitute|expand|immutable|override|redefine
report:message request:query require:need reservation:booking|keyword resolve:lookup responsible:charge|duty
rest:remaining|remainder|modulo restart:start|reset restrict:limit result:value|return resume:continue retain:preserve
return:give reuse:cache reverse:backwards|descending|invert|reflected revoke:cancel ride:drive
right:align|reflected|trailing risky:unsafe rotate:rollover|shift
round:nearest|precision|floor|iteration|parenthesis|truncate row:sequence rubbish:garbage rule:regulation
run:execute|invoke|evaluate runtime:dynamic safe:escape|secure salary:pay|wage save:store|write|persistent|serialize
scale:size schedule:time|plan scientific:exponent scope:namespace|visible screen:display|terminal script:program
search:find|lookup secret:private|password secretly:implicit section:slice secure:safe select:choose|filter
send:transmit|deliver separate:split|delimiter|sep|thousands sequence:iterable|order series:sequence
set:assign|bind|collection|initialize|specify|environment setter:descriptor setup:initialize
several:multiple|chained|unpack shape:pattern share:common|global|intersection shop:store shortcut:abbreviation|alias
shorten:truncate show:display|print|representation shrink:reduce shut:close|stop sick:ill side:operand
sign:operator|symbol signal:raise signup:register silence:suppress|ignore silent:suppress|ignore
simultaneous:concurrent|parallel single:unary sixteen:hexadecimal size:length|width skip:continue|ignore|omit
slash:backslash sleep:suspend|delay slow:time small:little|short|lowercase smaller:compare smallest:minimum|min
sort:order|kind|ascending source:code space:whitespace|blank|width|indentation|pad special:escape|reserved
speed:optimize spell:write|name spend:cost split:separate|divide|parse|unpack spot:detect|find spread:propagate|unpack
square:power|bracket stack:traceback staff:employee standard:builtin|default star:unpack
start:execute|initialize|leading|prefix state:specify stay:remain step:stride|increment sticky:persistent stolen:theft
stop:terminate|end|break|halt|quit|abort|breakpoint|exit|suspended store:save|disk|assign|cache strange:unexpected
street:road stride:step string:text|str|representation strip:remove stronger:precedence stuck:block|deadlock
student:pupil style:format subclass:derived|inherit subscribe:join subscript:index substitute:replace substring:slice
subtract:minus|difference succeed:success suffix:ending|extension suite:block sum:total|add|amount|addition|accumulate
superclass:base|parent suppress:ignore|hide sure:assert surface:shallow surround:enclose|context
swallow:discard|suppress swap:exchange|replace|reflected switch:toggle|change|flag symbol:sign|operator|character
syntax:notation tab:whitespace|indentation table:mapping tail:end|last take:accept|remove task:job teach:training
team:group tell:determine template:abstract|class|pattern temporary:buffer terminate:end|stop|exit ternary:conditional
test:check|verify|condition|predicate text:string|substring theft:stolen thread:concurrent three:ellipsis
throw:raise|exception|discard ticket:fare tidy:clean|format tie:equal tighter:precedence timeout:expire
times:multiply|occurrences|duration|timeout|repeat tired:rest together:combine|join|concatenate toilet:restroom
tool:utility top:highest|first total:sum touch:modify|access trace:traceback|stack traceback:stack trailing:end
training:course transform:convert translate:compile|convert treat:handle tree:hierarchy trial:test
trigger:invoke|raise trim:strip|truncate trouble:problem|error true:truth|boolean|nonzero truth:true|boolean
tune:adjust turn:convert twice:two|duplicate two:multiple type:class|kind|annotation|metaclass typo:misspelled
umlaut:unicode|non-ASCII unassigned:unbound uncaught:unhandled unchangeable:immutable|constant|frozen
unclear:ambiguous undefined:NameError|unbound underscore:mangle|wildcard understand:interpret undo:revert
unequal:different unfinished:pending unicode:encoding unimplemented:abstract union:merge unique:distinct
unite:join|merge|union unknown:undefined unlimited:infinite|arbitrary unlock:free|release unnamed:positional|anonymous
unpack:extract unusual:special update:modify|change|merge upper:uppercase uppercase:upper urgent:immediate
usable:available use:access|import usual:default|normal utf:encoding vacation:holiday|leave
value:object|argument|literal|operand vanish:removed|deleted variable:name|identifier|attribute|environment|target
vehicle:car verify:check|assert version:release visible:scope visitor:guest volunteer:helper vote:elect|majority
wait:block|sleep|suspend|timeout walk:iterate wallet:money warm:heat|temperature wash:clean
watch:observe|monitor|display way:mode weather:rain|wind weekly:week weird:special whitespace:indentation
whole:entire|integer wide:width width:size|pad win:winner wipe:clear|delete word:keyword work:evaluate worker:employee
workplace:office wrap:decorator wrapper:decorator write:define|notation|syntax|literal wrong:error|invalid|failure
yearly:annual|year yes:boolean yield:produce|generator zero:negative|nonzero|pad
"""


def _by_word(text: str) -> dict[str, tuple[str, ...]]:
    entries = (entry.partition(":") for entry in text.split())
    return {word: tuple(others.split("|")) for word, _, others in entries}


PLAIN_WORDS = _by_word(_LINES)
