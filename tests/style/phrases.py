"""The phrases that our style avoids, as regular expressions, and what says the same in plain English.

Letters of either case match, except in an expression that begins with ``(?-i)``.
"""

PHRASES: list[tuple[str, str]] = [
    (r"\b(?:nobody|somebody|everybody|anybody)\b", "no rank, some other process, every node, any user"),
    (r"\bof (?:its|their|one's|your|his|her|our) own\b", "its X, a separate X, a custom X"),
    (
        (
            r"\bwhat (?:is|are|was|were) (?:needed|wanted|there|left|private|large|known|said|given|written|"
            r"missing|found|sent)\b"
        ),
        "the name of the thing: the missing runs, the arguments",
    ),
    (
        r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b|fewer\b|better\b|need\b|way\b)",
        "is not a ..., or an affirmative sentence",
    ),
    (r"\bso (?:many|much|few)\b(?! (?:that|as|more|faster|less)\b)", "that number of ..., or the number itself"),
    (r"\bwhom\b", "which rank, or the rank as the subject"),
    (r"\bbeside\b", "next to, with, compared with"),
    (r"\b(?:leave|leaves|leaving|left) (?:it |them )?out\b", "omit, skip, exclude"),
    (r"\banother one\b", "a second ..., a different ..."),
    (r"\bstands? (?:here|there|below|beside|behind|in|at|before|between)\b", "is, comes, appears"),
    (r"\bin (?:the )?place of\b", "instead of"),
    (r"\b(?:tells?|told) of\b", "reports, describes"),
    (
        r"\bthe (?:living|dead)\b(?! (?:rank|process|one|node|receiver|member|object|parent|child|root))",
        "failed ranks, surviving ranks",
    ),
    (r"\bwhoever\b", "a rank that, any rank that"),
    (r"\bunder way\b|\bon (?:its|their) way\b", "pending, in flight, running"),
    (r"\bgo(?:es)? on (?:with|as|without|from|where|in|after|and|until)\b", "continues"),
    (r"\b(?:no|not|nothing|never|nobody|cannot|none)\b[^.;|]{0,50}\bany more\b", "no longer"),
    (r"\banew\b", "again, or a verb with re-"),
    (r"\bfor ever\b", "indefinitely, or: never ends"),
    (r", and not (?!only\b)", "rather than, instead of, but not"),
    (r"\bhea(?:rs?|rd) (?:of|from)\b", "is notified of, receives"),
    (r"\b(?:that|who) lives?\b", "surviving"),
    (r"\bwhat (?:there (?:is|was|are|were)|stands)\b", "the existing ..., the text"),
    (
        (
            r"\b(?:ranks?|bytes?|messages?|cores?|cables?|seconds?|us|ms|lines|calls|[KM]i?B|processes|NICs?|"
            r"events|numbers?|rows|ports?|steps|runs|values) an? (?:node|second|rank|message|byte|core|level|"
            r"run|machine|process|call|element|dimension|pair|shard|hop|link|chassis|router|line|"
            r"combination)\b"
        ),
        "per",
    ),
    (r"\broll-calls?\b", "deadlock report"),
    (r"\bbut for\b", "except"),
    (r"\b(?:that|which|who) (?:is|are|was|were) there\b", "existing, available"),
    (r"\bat (?:all|some|other|most|every|each) (?:ranks|members|processes|rank|member|process)\b", "on"),
    (r"\boutliv(?:e|es|ed|ing)\b", "survives, tolerates"),
    (r"(?-i)(?<!there )\bis none\b", "is not set, is empty, is not one of"),
    (r"\*Price\.\*|\b(?:its|their) price\b", "cost, trade-off"),
    (r"\bcan not\b", "cannot"),
    (r"\bwhat (?:came|comes|has come|will come) of\b", "the result of, the outcome of"),
    (r"(?-i)(?<=[.;] )Who (?![^.]*\?)", "A rank that ..., If a rank ..."),
    (r"\bcheck sums?\b", "checksum"),
    (r"\bnothing but\b", "only"),
    (r"\bthe least (?!likely|squares|significant|common|of)", "the smallest, the minimum"),
    (r"\bas many as there are\b", "one per ..."),
    (r"\bin vain\b", "without success, until a timeout"),
    (r"\bmend(?:s|ed|ing)?\b", "fix, fixed"),
    (r"\bfor (?:dead|living)\b", "as failed, as alive"),
    (r"\b(?:after|for|takes?|in) so long\b|\bso long after\b", "after this time"),
    (r"\bover and over\b|\bagain and again\b", "repeatedly"),
    (r"\b(?:get|gets|got|getting) over\b", "recovers from, tolerates"),
    (r"\bsigns? of life\b", "heartbeat"),
    (r"\bnot good\b|\bgood runs?\b", "failed, successful, valid"),
    (r"\b(?:keeps?|kept) (?:\w+ )?apart\b", "isolate, separate, order"),
    (r"\b(?:is|are|was|were) known of\b", "is not modelled, has no data"),
    (r"\bthe news\b|\bnews (?:of|comes|that|has|may)\b", "the failure notice, the notification"),
    (r"\b(?:which|that|who) (?:is|are) to be\b", "must be, future"),
    (r"\bif need be\b", "if needed"),
    (r"(?-i)(?<=\. )And (?:the|it|so|who|what)\b", "the sentence without And"),
    (r"\bto the bit\b", "bit for bit"),
    (r"\bby turns\b", "interleaved, alternately"),
    (r"\b(?:is|are) the most\b|\bthe most that\b", "the limit is ..."),
    (r"\bso (?:it is|is that|is it|it does) (?:with|of|by|for)\b|\ball this is so\b", "the same applies to"),
    (r"\b(?:is|are) at work\b", "is running, is in use"),
    (r"\b(?:is|are) (?:wanted|expected) here\b", "expected X, got Y"),
    (r"\b(?:its|their) kin\b", "related calls"),
    (r"\bis called after\b", "is named after"),
]
