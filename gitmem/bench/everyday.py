"""Prompts of everyday work with an agent that no memory answers. Written for this benchmark.

They name nothing of any project: acknowledgements, errands, choices, complaints, pasted
output, and the same in other languages. A memory told for one of them is noise.
"""

_SHORT = """
ok / yes / yes please / go on / continue / thanks, that works / perfect / looks good to me /
no, not like that / great, keep going / sure, go ahead / done, what's next? /
Let's go with option a / the second one / option 2 please / do both /
whatever you think is best / let's try the simpler way first / 1 /
fix the failing test / run the tests again / commit this / please commit and push /
undo your last change / write a test for it / add a comment there /
rename it to something clearer / clean up the code a little / format the file /
open a pull request / update the readme / remove the debug output /
split this function into two / can you make it shorter? /
what did you just change? / why did you do that? / are you sure? / is it finished now? /
how do I run this? / can you explain that again in simple words? / show me the diff /
what are the next steps? / does this look right to you? /
it still doesn't work / same error as before / that broke everything, revert it /
you forgot the imports / this is too slow / hmm, I get a blank page now"""

_PASTED = (
    """Traceback (most recent call last):
  File "main.py", line 12, in <module>
    main()
  File "main.py", line 8, in main
    print(values[3])
IndexError: list index out of range""",
    """$ ls
Makefile  README.md  src  tests
$ git status
On branch main
nothing to commit, working tree clean""",
    """============ 1 failed, 41 passed in 3.20s ============
make: *** [Makefile:7: test] Error 1""",
    "error: command not found\n\nwhat now?",
)

_OTHER_LANGUAGES = """
sí, adelante / oui, vas-y / ja, mach weiter / 好的，继续 / はい、お願いします / да, продолжай /
sim, pode continuar"""


def _split(group: str) -> list[str]:
    return [prompt.strip() for prompt in group.split(" /")]


PROMPTS = (*_split(_SHORT), *_PASTED, *_split(_OTHER_LANGUAGES))
