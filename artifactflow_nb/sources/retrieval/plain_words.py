"""Everyday words of questions, each with the words that a text is likely to use instead.

General English, in one direction: a question about the `biggest` number is answered by a text about the `maximum`, but
one about the maximum is not about everything big. Written without any text or question in view, except that pairs which
no reference manual needs were left out.
"""

_LINES = """
abort:cancel|terminate|interrupt|stop absent:missing accent:unicode accident:injury|incident
accompany:attend achieve:reach acquire:obtain|lock actual:real add:append|insert|extend|include|plus address:location
adult:age advance:next|increment afford:cost afterwards:later age:old agree:accept|consent aim:goal|purpose|target
alarm:alert|warning allow:permit|accept alter:modify|change alternative:default amount:number|count|quantity
annul:cancel|revoke anonymous:lambda answer:reply|respond|response apart:separate|split|components apologize:sorry
appear:occur|display apply:use appointment:meeting argue:dispute argument:parameter arrange:order|sort
array:list|sequence arrive:receive ask:request|query|prompt assemble:build|join asynchronous:async
attach:fasten|connect|append attempt:try|retry attribute:property|member author:writer automatic:implicit
avoid:prevent|suppress award:prize baby:infant|child backslash:escape backwards:reverse|negative bad:invalid|malformed
ban:forbid|prohibit bar:forbid bargain:discount begin:start|first|leading|prefix belong:member|membership
big:large|size bigger:larger|greater biggest:largest|maximum|max bill:invoice|payment bit:binary
blank:empty|whitespace|space block:suite blueprint:class boil:heat bonus:reward book:reserve borrow:loan|lend
bottom:last|lowest bounds:limit|range brackets:parentheses|square
break:terminate|interrupt|split|invalid|corrupted|faulty|damaged brief:short|summary bring:carry bug:error|defect
build:construct|create bunch:group|collection buy:purchase|order calculate:compute|evaluate call:invoke caller:call
camera:photo cancel:abort capital:uppercase car:vehicle|parking care:maintenance|caution cash:payment|money
catch:except|handle cease:stop|terminate ceiling:maximum|limit chance:probability
change:modify|alter|update|mutate|replace changeable:mutable characters:letters chat:conversation cheap:low
check:test|verify|validate chief:head|lead child:subclass|derived choose:select|pick chop:truncate|split|strip|shorten
chunk:part|block|piece cipher:encrypt claim:request classify:category clean:strip|clear|remove cleanup:finalization
clear:remove clever:smart close:terminate|shut club:association|society coat:layer cold:temperature|frost
colleague:staff|employee collect:gather|accumulate combine:join|merge|concatenate comes:returned command:instruction
comment:hash compensate:refund|reimburse compile:translate complain:error|warning|raise complaint:objection
complete:finish|whole|entire computer:machine|host conceal:hide|suppress concurrency:parallel condition:test|boolean
confirm:verify|approval connect:join|attach constant:immutable|literal constructor:initialize consume:use
contact:reach|phone|email contain:include|membership contest:competition|race continue:next|resume|proceed
control:manage convert:transform|coerce cooperate:collaborate copy:duplicate|clone coroutine:async|await
correct:right|valid costs:price|fee|expense count:number|occurrences|total couple:two|pair courtesy:polite
crash:fail|error|exception create:make|construct|new|generate crop:truncate crossing:intersection crowd:people
curly:braces current:present customer:client cut:truncate|split|slice|shorten daily:day damage:break|corrupt
dangerous:hazard|risk|unsafe data:values date:day|time dead:terminated deadline:date debt:owed
debugging:debugger|breakpoint decide:determine|choose decimal:float|point default:initial
delete:remove|del|erase|discard|unlink depend:require destroy:delete|remove destructor:finalizer|destroyed
detect:find|determine|recognize dict:dictionary|mapping dictionary:mapping|dict die:terminate|exit differ:distinct
digits:decimal|numeric|number direction:order directory:folder dirty:unclean disable:deactivate
disappear:removed|deleted discard:drop|remove display:print|show|output dispose:discard dissimilar:different
divide:quotient|split dots:ellipsis|period double:twice|two|duplicate doubt:uncertain drive:disk
drop:remove|omit|discard duplicate:repeated|twice|copy duration:time|length duty:obligation|task|responsible
early:premature earn:salary|wage edit:modify|change elect:vote element:item|member email:mail|message
emergency:accident|alarm emoji:unicode employ:hire empty:zero|blank
end:last|final|stop|finish|terminate|trailing|expire|suffix|extension enough:sufficient ensure:check|guarantee
enter:begin|input entire:whole entry:item|element equal:identical erase:delete|remove error:exception|raise|failure
escape:backslash|quote examine:inspect|test exceed:larger|greater exception:error excuse:reason execute:run|evaluate
exist:present exit:terminate|quit|leave expense:cost expire:timeout explain:describe explode:fail
extra:additional|excess fail:error|exception|raise failure:error|exception fallback:default fast:efficient|speed
faster:efficient|speed fee:charge|price fetch:retrieve file:path fill:pad filter:select final:last find:search|locate
fine:penalty finger:hand finish:end|complete|terminate fire:dismiss fit:width fix:repair|correct|constant|immutable
flip:reverse|invert|swap folder:directory food:meal forbid:prohibit|disallow force:require forever:infinite
forget:discard|lost|missing freeze:immutable fresh:new fridge:refrigerator function:callable|method fund:money
gather:collect generate:create|produce gift:donation|present glue:join|concatenate gone:missing|removed grab:acquire
greater:larger grow:increase|extend guarantee:ensure|warranty guard:condition guess:determine|infer guest:visitor
guide:manual|instruction half:middle halt:stop hand:pass handle:catch|process hang:block|wait happen:occur
hardware:machine|device hashmap:mapping|dictionary heavy:weight|load help:support|assist hex:hexadecimal
hide:suppress|private high:maximum|level hint:tip|advice history:past|earlier hold:contain|store home:house huge:large
hurt:injured|injury identical:equal|identity identify:determine|name idle:inactive ignore:suppress|skip ill:sick
illegal:invalid|error immediately:directly immutable:unchangeable|changed improve:better include:contain
income:revenue|received increase:increment|larger inform:notify inherit:subclass|base injured:hurt|accident
inner:nested|enclosed|local inside:contained inspect:examine instance:object interrupt:signal|break
item:element|member iterate:loop jam:stuck|block job:task|work|position join:concatenate|combine|merge
jump:skip|continue|goto key:password|token keyword:named kid:child kill:terminate|stop kind:type lab:laboratory
laptop:computer larger:greater|bigger largest:biggest|maximum|max last:final|end|persistent late:delay|overdue
launch:start|run law:rule|regulation lead:head|chair leave:exit|terminate|omit leftover:remaining lend:loan|borrow
length:len|number|size letter:character|alphabetic limit:maximum|restrict|bound line:row linebreak:newline
link:connect|reference list:sequence listen:receive local:scope locate:find|search lock:acquire|block lodge:submit
log:record loop:iterate lost:discarded|missing lowercase:lower lowest:minimum|smallest lunch:meal|break
machine:device|computer mail:message|email main:primary manage:handle|control mandatory:required manual:handbook|guide
mark:flag|label match:equal|pattern maximum:largest|max|limit member:belong memory:ram|storage mend:repair
merge:combine|join|update message:text minimum:smallest|min minus:subtraction|negative missing:absent|omitted
mistake:error mix:combine modify:change|alter|mutate money:fee|cost|payment|amount monthly:month
move:rename|transfer|shift multiply:times|product mutable:changeable|modify name:identifier|variable|keyword
neat:pretty|format negative:minus nested:inside|enclosing newcomer:beginner newest:latest|recent newline:line
nicely:format|pretty nickname:alias noise:sound notice:detect notify:inform number:numeric|integer|count
object:instance obligatory:required|mandatory obtain:return occur:happen offer:provide offline:network oldest:earliest
omit:leave open:start operate:run optional:default order:sequence|sort|precedence original:source outage:failure
outer:enclosing|outside outside:outer|enclosing|external overlap:intersection overload:override|operator|special
override:replace|redefine overrule:override overwrite:replace owe:pay owner:responsible|class pack:collect
pair:two|tuple parent:base|superclass|enclosing part:piece|component participate:attend particular:specific
password:secret paste:insert pause:sleep|wait|suspend|breakpoint payment:fee people:persons|members|users
percent:percentage perform:execute period:dot permanent:persistent permit:allow|right|access person:member|user
phone:telephone|call photo:picture|image pick:choose|select piece:part|component place:position|location
placeholder:replacement|template plain:simple plan:schedule plus:addition point:position position:index|offset
postpone:delay|defer pretty:format prevent:avoid|forbid|suppress previous:earlier print:display|output
private:mangling|hidden prize:award problem:error|exception process:handle produce:create|generate|return
program:application|script prohibit:forbid promise:guarantee prompt:input property:attribute protect:lock|safe
punish:penalty put:insert|add|store question:query quick:fast quickly:fast|efficient quiet:silent|suppress
quit:exit|terminate|stop|leave|resign quotes:string|literal rain:weather|wet raise:throw random:arbitrary
range:interval rank:order read:load|input ready:available real:floating receive:accept recent:latest|new
recognise:detect record:log|store reduce:decrease refund:returned|reimburse refuse:reject|deny register:sign
reject:refuse release:free|unlock relocate:move remainder:modulo remember:store|preserve|cache|save
remove:delete|discard|strip rename:name renew:extend repeat:duplicate|times replace:substitute report:message
request:query require:need reservation:booking responsible:charge|duty rest:remaining|remainder restart:start|reset
restrict:limit result:value|return resume:continue retain:preserve return:give reverse:backwards revoke:cancel
ride:drive risky:unsafe rotate:rollover|shift round:nearest|precision rubbish:garbage rule:regulation
run:execute|invoke safe:escape|secure salary:pay|wage save:store|write scale:size schedule:time|plan
scope:namespace|visible screen:display|terminal script:program search:find|lookup secret:private|password
secretly:implicit secure:safe select:choose send:transmit|deliver separate:split|delimiter|sep series:sequence
set:assign several:multiple share:common shop:store shortcut:abbreviation|alias shorten:truncate show:display|print
shrink:reduce shut:close|stop sick:ill sign:operator|symbol signup:register silence:suppress|ignore
silent:suppress|ignore simultaneous:concurrent|parallel size:length|width skip:continue|ignore|omit
sleep:suspend|delay slow:time small:little|short smallest:minimum|min sort:order|kind source:code
space:whitespace|blank spell:write|name spend:cost split:separate|divide spot:detect|find square:power staff:employee
stay:remain step:stride sticky:persistent stolen:theft stop:terminate|end|break|halt|quit store:save|disk
strange:unexpected street:road string:text|str strip:remove stuck:block student:pupil subclass:derived|inherit
subscribe:join substitute:replace subtract:minus|difference succeed:success suffix:ending
sum:total|add|amount|addition superclass:base|parent suppress:ignore|hide surround:enclose swap:exchange|replace
switch:toggle|change symbol:sign|operator|character tab:whitespace|indentation table:mapping tail:end|last
take:accept|remove task:job teach:training team:group tell:determine terminate:end|stop test:check|verify text:string
theft:stolen thread:concurrent throw:raise|exception ticket:fare tidy:clean|format tie:equal
times:multiply|occurrences tired:rest together:combine|join toilet:restroom tool:utility top:highest|first total:sum
touch:modify|access trace:traceback|stack traceback:stack trailing:end training:course transform:convert trial:test
trim:strip|truncate trouble:problem|error true:truth|boolean truth:true|boolean tune:adjust twice:two|duplicate
type:class|kind typo:misspelled umlaut:unicode|non-ASCII unchangeable:immutable undefined:NameError|unbound
undo:revert unequal:different unfinished:pending unique:distinct unite:join|merge|union unlimited:infinite
unnamed:positional|anonymous unpack:extract unusual:special update:modify|change uppercase:upper urgent:immediate
usable:available usual:default|normal vacation:holiday|leave value:object vanish:removed|deleted
variable:name|identifier vehicle:car verify:check version:release visible:scope visitor:guest volunteer:helper
vote:elect|majority wait:block|sleep wallet:money warm:heat|temperature wash:clean watch:observe|monitor|display
weather:rain|wind weekly:week weird:special whole:entire|integer width:size win:winner wipe:clear|delete
worker:employee workplace:office wrong:error|invalid yearly:annual|year yield:produce|generator
"""


def _by_word(text: str) -> dict[str, tuple[str, ...]]:
    entries = (entry.partition(":") for entry in text.split())
    return {word: tuple(others.split("|")) for word, _, others in entries}


PLAIN_WORDS = _by_word(_LINES)
