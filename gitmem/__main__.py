"""The executable `git-mem`: picks the door, turns errors into text and exit codes.

Exit codes: 0 done or found, 1 refused or nothing found, 2 wrong usage, 3 a bug
of ours, 128 not a repository. We import nothing from the working tree, also not
under `PYTHONPATH=.`: entries before the standard library are dropped first.
(What Python itself runs at start, `sitecustomize`, only `python -E` prevents.)
"""

import errno
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def _isolate() -> None:
    """Drops what PYTHONPATH and the script's directory put before the standard library.

    Where the package itself runs from a path entry (a checkout), that one entry stays, behind the
    library.
    """
    library = os.path.dirname(os.__file__)
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for i, entry in enumerate(sys.path):
        if entry == library or entry.endswith(archive):
            before, after = sys.path[:i], sys.path[i:]
            kept = [p for p in before if p and os.path.abspath(p) == own and own not in after]
            sys.path[:] = [*after, *kept]
            return


def main() -> int:
    _isolate()
    # A process of a second makes no garbage worth collecting; looking for it cost a bulk import a
    # fifth of its time.
    gc.disable()
    if sys.argv[1:2] == ["hook"] and not {"--help", "-h"}.intersection(sys.argv):
        # An agent waits: nothing else is loaded, and no mistake may block what it is about to do.
        try:
            from .agents import hook

            hook.main(sys.argv[2:], os.environ)
        finally:
            os._exit(0)
    _open_streams()
    if sys.argv[1:2] == ["complete"]:
        from .completion import complete

        return complete.main(sys.argv[2:])
    from .core.errors import MemError

    try:
        if sys.argv[1:2] == ["recall"]:
            from .embedding import reader

            reader.begin()  # it takes as long as everything below
        if sys.argv[1:2] == ["worker"] and len(sys.argv) == 3:
            return _worker(sys.argv[2])
        from .cli import run

        status = run(sys.argv[1:])
        sys.stdout.flush()
        return status
    except MemError as e:
        from .cli.common import refused

        refused(e.message, e.hint)
        return e.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, less) has seen enough; Python must not complain at its last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as e:
        if e.filename is None and e.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):
            # Nobody can be told on stdout; what was stored is stored.
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            print(f"error: cannot write the output: {e.strerror}", file=sys.stderr)
            return 1
        if e.errno in (errno.EMFILE, errno.ENFILE):  # then nothing can be imported, either
            print(f"error: cannot go on: {e.strerror}", file=sys.stderr)
            print("hint: `ulimit -n` shows how many may be open", file=sys.stderr)
            return 1
        return _bug(e)
    except Exception as e:
        return _bug(e)


# Of the git command whose hook started the worker: they name its index and author, not our work.
_FOREIGN = (
    "DIR WORK_TREE COMMON_DIR INDEX_FILE PREFIX OBJECT_DIRECTORY ALTERNATE_OBJECT_DIRECTORIES"
    " QUARANTINE_PATH NAMESPACE CONFIG_PARAMETERS REFLOG_ACTION EDITOR SEQUENCE_EDITOR EXEC_PATH"
    " CHERRY_PICK_HELP AUTHOR_NAME AUTHOR_EMAIL AUTHOR_DATE COMMITTER_DATE MEM_STDIN"
)


def _worker(common_dir: str) -> int:
    _detach()
    named = bool(os.environ.get("GIT_DIR"))
    for name in _FOREIGN.split():
        os.environ.pop("GIT_" + name, None)
    for part in ("NAME", "EMAIL"):  # git leaves the user's own here
        if os.environ.get("GIT_COMMITTER_" + part):
            os.environ["GIT_AUTHOR_" + part] = os.environ["GIT_COMMITTER_" + part]
    os.environ["GIT_TERMINAL_PROMPT"] = "0"
    from . import worker
    from .git import repository
    from .hooks import spool

    _limit(worker.LIMIT, worker.MEMORY)
    common_dir = os.path.realpath(common_dir)
    try:
        cwd = os.getcwd()
    except FileNotFoundError:  # it was removed, as a worktree may be; it may have lain in there
        cwd = common_dir
    if not named and repository.found_inside_tree(common_dir, cwd):
        spool.refuse(common_dir)  # a commit may have brought it
        return 0
    os.chdir(worker.home(common_dir))
    if named and worker.home(common_dir) == common_dir:
        os.environ["GIT_DIR"] = common_dir  # it may be bare: then it has to be named
    worker.run(common_dir, os.environ)
    return 0


def _detach() -> None:
    """Cuts every tie to the hook: `git commit | cat` must not wait for this process, nor a closed
    terminal end it.
    """
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []:
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass
    if hasattr(os, "setsid"):
        try:
            os.setsid()
            # Linux shares processors between sessions, to which `nice` says nothing: sched(7).
            with open("/proc/self/autogroup", "w", encoding="ascii") as f:
                f.write("19")
        except OSError:
            pass  # started by hand, as the leader of its group; or no such file
        os.nice(10)


def _limit(seconds: int, memory: int) -> None:
    import signal

    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    except (ImportError, OSError, ValueError):
        pass  # Windows, or a lower limit of the user's


def _open_streams() -> None:
    """A caller may have closed ours, or made it non-blocking: Python loses what does not fit in a
    pipe then. What an output cannot encode is shown as an escape.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        try:
            os.set_blocking(stream.fileno(), True)
        except (AttributeError, OSError, ValueError):
            pass  # Windows, or no file


def _bug(error: Exception) -> int:
    """One line for the user, the traceback in a private file; neither repeats the message, which
    may hold the text of a memory.
    """
    import tempfile
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    last = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "start"
    print(f"bug: {type(error).__name__} in {last}", file=sys.stderr)
    try:
        fd, name = tempfile.mkstemp(prefix="git-mem-crash-", suffix=".log")  # for this user alone
        with open(fd, "w", encoding="utf-8") as f:
            f.write(f"git-mem {' '.join(sys.argv[1:2])}\nPython {sys.version}\n\n")
            f.writelines([f"{type(error).__name__}\n", *traceback.format_list(frames)])
        print(f"details: '{name}'", file=sys.stderr)
    except OSError:
        pass
    return 3


def leave(status: int) -> "NoReturn":
    """Ends the process without taking the interpreter apart, which takes 20 ms."""
    import atexit

    threads = sys.modules.get("threading")
    if threads and threads.active_count() > 1:
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads it; `main` has said so
    os._exit(status)


if __name__ == "__main__":
    leave(main())
