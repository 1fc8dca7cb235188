"""English function words and verbs of questions, which say nothing about the subject of a question."""

STOP_WORDS = frozenset(
    """
a about above after again against all along also although always am among an and another any anyone anything are aren
around as aside at away be became because become been before behave behaves behind being below beside besides between
beyond both but by can cannot could couldn did didn do does doesn doing don done down due during describe each either
else ever every everything explain few for from further get gets getting given go goes going got had happen happens has
hasn have haven having he hence her here hers herself him himself his how however i if in indeed instead into is isn it
its itself just keep kept least less let lets like likely many may me might mine more most much must my myself near
neither never no none nor not nothing now of off often on once one ones only onto or other others otherwise our ours
out over own per perhaps please quite rather really same say says see seem seems shall she should shouldn since so some
someone something somewhat soon still such than that the their theirs them themselves then there thereby therefore
these they thing things this those though through thus to too toward towards under unless until up upon us very via was
wasn we well were weren what whatever when whenever where whereas wherever whether which while who whoever whom whose
why will with within without would wouldn yet you your yours yourself
""".split()  # noqa: SIM905 - a list of words reads best as a text
)
