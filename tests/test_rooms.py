"""tools/rooms.py: each rule catches a seeded breach, leaves good code alone; our tree is clean."""

from pathlib import Path

import cpp_text
import pytest
import rooms

ROOT = Path(__file__).resolve().parent.parent
LONG_CPP = "int long_one() {\n" + "  count();\n" * 70 + "}\n"
LONG_PYTHON = "def long_one():\n" + "    count()\n" * 70


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """An empty house with the real table of rooms."""
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake/rooms.cmake").write_text((ROOT / "cmake/rooms.cmake").read_text())
    return tmp_path


def put(house: Path, path: str, text: str) -> None:
    target = house / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def rules_broken(house: Path, path: str) -> set[str]:
    return {breach.rule for breach in rooms.check_tree(house) if breach.path == path}


def include(*paths: str) -> str:
    return "".join(
        f'#include "{path}"\n' if path.startswith("overlord/") else f"#include <{path}>\n"
        for path in paths
    )


SEEDED = [
    # Includes that look up or sideways.
    ("include", "src/overlord/base/x.cc", include("overlord/model/mesh.h")),
    ("include", "src/overlord/plan/x.cc", include("overlord/runtime/seams.h")),
    ("include", "src/overlord/protocol/x.cc", include("overlord/plan/select/selection.h")),
    ("include", "src/overlord/roles/loader/service.cc", include("overlord/roles/client/role.h")),
    ("include", "src/overlord/roles/planner/service.cc", include("overlord/columnar/slab.h")),
    ("include", "src/overlord/sim/x.cc", include("overlord/node/node.h")),
    ("include", "src/overlord/node/x.cc", include("overlord/sim/dice.h")),
    ("include", "src/overlord/plan/x.cc", include("overlord/testing/meshes.h")),
    ("include", "src/overlord/plan/x.cc", include("overlord/attic/x.h")),
    ("include", "python/src/x.cc", include("overlord/sim/dice.h")),
    ("include", "tests/simulation/x.cc", include("overlord/node/node.h")),
    ("room", "src/overlord/attic/x.cc", ""),
    # Engines outside their rooms.
    ("engine", "src/overlord/runtime/x.cc", include("arrow/api.h")),
    ("engine", "src/overlord/roles/loader/service.cc", include("parquet/file_reader.h")),
    ("engine", "python/src/x.cc", include("arrow/api.h")),
    ("engine", "src/overlord/node/x.cc", include("nanobind/nanobind.h")),
    # Pure files that look at the world.
    *[
        ("purity", "src/overlord/plan/x.cc", include(header))
        for header in ["thread", "mutex", "chrono", "random", "filesystem", "fstream", "iostream"]
    ],
    ("purity", "src/overlord/plan/x.cc", include("arrow/api.h")),
    ("purity", "src/overlord/roles/loader/state.h", "// x\n" + include("chrono")),
    ("purity", "src/overlord/roles/loader/logic.cc", include("overlord/columnar/slab.h")),
    ("purity", "src/overlord/roles/loader/refill_logic.cc", include("nanobind/nanobind.h")),
    # Calls that reach around the seams.
    ("world", "src/overlord/columnar/x.cc", "std::thread worker;\n"),
    ("world", "src/overlord/columnar/x.cc", "std::shared_mutex lock;\n"),
    ("world", "src/overlord/model/x.cc", "auto t = std::chrono::system_clock::now();\n"),
    ("world", "src/overlord/model/x_test.cc", "auto t = std::chrono::steady_clock::now();\n"),
    ("world", "src/overlord/roles/loader/service.cc", "std::this_thread::sleep_for(1s);\n"),
    ("world", "src/overlord/base/x.cc", "int chance = rand();\n"),
    ("world", "src/overlord/base/x.cc", "int chance = (rand ());\n"),
    ("world", "src/overlord/runtime/x.cc", "std::random_device seed;\n"),
    # Sizes.
    ("size", "src/overlord/base/x.cc", "int a;\n" * 601),
    ("size", "python/overlord/x.py", "a = 1\n" * 601),
    ("size", "src/overlord/base/x.cc", LONG_CPP),
    ("size", "src/overlord/base/x.cc", "namespace a {\nclass B {\n public:\n" + LONG_CPP + "};\n}"),
    ("size", "python/overlord/x.py", LONG_PYTHON),
    # Names that say nothing.
    ("name", "src/overlord/base/string_utils.cc", ""),
    ("name", "src/overlord/base/util.cc", ""),
    ("name", "python/overlord/misc.py", ""),
    ("name", "python/overlord/common/x.py", ""),
    ("name", "src/overlord/base/x.cc", "class BufferManager {};\n"),
    ("name", "src/overlord/base/x.cc", "template <class T> struct PlanHelper final : A<T> {};\n"),
    ("name", "src/overlord/base/x.cc", "using StringUtil = int;\n"),
    ("name", "python/overlord/x.py", "class DataManager:\n    pass\n"),
    # Who reads a window.
    ("owner", "src/overlord/roles/loader/logic.cc", "bool mine = window % job.slots == slot;\n"),
    ("owner", "src/overlord/node/x.cc", "auto slot = w % map->owners.slots[source];\n"),
    # Headers, own headers and sleeping tests.
    ("comment", "src/overlord/base/x.h", "#pragma once\n"),
    ("sleep", "src/overlord/base/x_test.cc", "void wait() { sleep(1); }\n"),
    ("sleep", "tests/integration/x.cc", "void wait() { std::this_thread::sleep_for(1s); }\n"),
    ("sleep", "tests/x.py", "import time\ntime.sleep(1)\n"),
    ("sleep", "python/tests/x.py", "from time import sleep\nsleep(1)\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), SEEDED)
def test_rule_catches_a_seeded_breach(house: Path, rule: str, path: str, text: str) -> None:
    put(house, path, text)
    assert rule in rules_broken(house, path)


GOOD = [
    ("src/overlord/plan/x.cc", include("overlord/model/mesh.h", "vector")),
    ("src/overlord/plan/x_test.cc", include("overlord/testing/meshes.h", "random")),
    ("src/overlord/columnar/x.cc", include("arrow/api.h", "parquet/file_reader.h")),
    ("src/overlord/runtime/x.cc", "std::thread worker; std::mutex lock;\n"),
    ("src/overlord/node/x.cc", include("overlord/roles/loader/role.h", "overlord/storage/a.h")),
    ("src/overlord/roles/loader/service.cc", include("overlord/columnar/slab.h")),
    ("src/overlord/sim/x.cc", include("overlord/roles/client/role.h", "overlord/testing/a.h")),
    ("python/src/x.cc", include("nanobind/nanobind.h", "arrow/c/abi.h", "overlord/node/node.h")),
    ("src/overlord/base/x.cc", "// std::thread, rand(), class BufferManager {\n"),
    ("src/overlord/base/x.cc", 'auto text = R"(std::mutex sleep_for rand() "{)";\n'),
    ("src/overlord/base/x.cc", '// #include "overlord/node/node.h"\n'),
    ("src/overlord/base/x.cc", "int operand(int brand) { return brand; }\n"),
    ("src/overlord/base/x.h", "// What it is.\n#pragma once\n"),
    ("src/overlord/base/commonwealth.h", "// What it is.\nclass Commonwealth {};\n"),
    ("src/overlord/model/owner_map.h", "// Who reads.\nauto owner = window % map.slots[s];\n"),
    ("tests/x.py", 'text = "time.sleep(1)"\n'),
]


@pytest.mark.parametrize(("path", "text"), GOOD)
def test_good_code_passes(house: Path, path: str, text: str) -> None:
    put(house, path, text)
    assert rules_broken(house, path) == set()


def test_own_header_comes_first(house: Path) -> None:
    put(house, "src/overlord/base/x.h", "// What it is.\n")
    put(house, "src/overlord/base/x.cc", include("vector", "overlord/base/x.h"))
    assert rules_broken(house, "src/overlord/base/x.cc") == {"own-header"}
    put(house, "src/overlord/base/x.cc", include("overlord/base/x.h", "vector"))
    assert rules_broken(house, "src/overlord/base/x.cc") == set()


def test_logic_may_see_seams_but_no_header_that_brings_threads(house: Path) -> None:
    path = "src/overlord/roles/loader/logic.cc"
    put(house, "src/overlord/runtime/seams.h", "// Seams.\n" + include("memory"))
    put(house, "src/overlord/runtime/mailbox.h", "// Mailbox.\n" + include("mutex"))
    put(house, path, include("overlord/runtime/seams.h"))
    assert rules_broken(house, path) == set()
    put(house, path, include("overlord/runtime/mailbox.h"))
    assert rules_broken(house, path) == {"purity"}


def test_function_at_the_limit_passes(house: Path) -> None:
    put(house, "src/overlord/base/x.cc", "int f() {\n" + "  g();\n" * 68 + "}\n")
    assert rules_broken(house, "src/overlord/base/x.cc") == set()


@pytest.mark.parametrize(
    "back",
    [
        "from overlord import middle\n",
        "def late():\n    import overlord.middle\n",
        "if TYPE_CHECKING:\n    from overlord.middle import Name\n",
    ],
)
def test_modules_that_import_each_other_are_found(house: Path, back: str) -> None:
    low, middle, top = (f"python/overlord/{name}.py" for name in ("deep/low", "middle", "top"))
    put(house, top, "from overlord.middle import a\nfrom overlord import deep\n")
    put(house, middle, "import overlord.deep.low\n")
    put(house, low, "import json\n")
    put(house, "python/overlord/deep/__init__.py", "")
    assert rooms.check_tree(house) == []
    put(house, low, back)
    (breach,) = rooms.check_tree(house)
    assert (
        breach.rule == "circle"
        and {low, middle} <= set(breach.message.split())
        and top not in breach.message
    )


@pytest.mark.parametrize("part", ["src/overlord/plan", "src/overlord/roles/client"])
def test_a_part_that_decides_says_what_must_hold(house: Path, part: str) -> None:
    checked = 'int sure() {\n  OVERLORD_CHECK(true, "it holds");\n  return 1;\n}\n'
    put(house, f"{part}/deep/x.cc", checked)
    put(house, f"{part}/x.cc", "int a() { return 1; }\nint b() { return 2; }\n")
    assert not any(breach.rule == "invariants" for breach in rooms.check_tree(house))
    # Neither what is commented out nor what a test says counts.
    put(house, f"{part}/y.cc", 'int c() {\n  // OVERLORD_CHECK(false, "it");\n  return 1;\n}\n')
    put(house, f"{part}/y_test.cc", checked)
    assert any(breach.rule == "invariants" for breach in rooms.check_tree(house))


def test_functions_are_told_from_everything_else_in_braces() -> None:
    text = """\
#define SPREAD(x) \\
  do {            \\
  } while (x)
extern "C" {
int in_c(void) { return '{'; }
}
namespace outer::inner {
enum class Colour : int { kRed, kBlue };
constexpr int kTable[] = {1, 2, 3'000};
const std::vector<int> kMade = make({1, 2});
template <class T, typename = std::enable_if_t<(sizeof(T) > 1)>>
class Box final : public Base<void(int)> {
 public:
  explicit Box(int a)
      : a_{a}, text_{"}{"}, b_(a) {
    run([&] {
      if (a) { /* } */ }
    });
  }
  ~Box() override { struct Local { int x; }; }
  bool operator()(int x) const noexcept { return x; }
  auto trailing() const -> Result<int> { return R"(}{)"; }

 private:
  int a_{0};
  std::function<void()> call_ = [] { return; };
};
}  // namespace outer::inner
TEST(Suite, Case) {
  for (int i = 0; i < 3; ++i) {
  }
}
"""
    found = {f.name: (f.first_line, f.last_line) for f in cpp_text.functions(text)}
    assert found == {
        "in_c": (5, 5),
        "Box": (14, 19),
        "~Box": (20, 20),
        "operator": (21, 21),
        "trailing": (22, 22),
        "call_": (26, 26),
        "TEST": (29, 32),
    }


def test_rooms_are_read_from_the_build() -> None:
    deps = rooms.House.read(ROOT).deps
    assert deps["base"] == set()
    assert deps["plan"] == {"model", "base"}
    assert "roles/planner" in deps["node"]
    assert not deps["sim"] & {"node", "storage", "transport"}
    for room, below in deps.items():
        assert all(room not in deps[other] for other in below), f"{room} leans on itself"
