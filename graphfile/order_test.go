package graphfile_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
)

func names(g *graph.Graph) string {
	var list []string
	for _, n := range g.Nodes {
		list = append(list, n.Name)
	}
	return strings.Join(list, " ")
}

func TestOrderKeepsWhatStandsWell(t *testing.T) {
	relu := func(name, of string) string {
		return fmt.Sprintf(`{"name": %q, "op": "relu", "inputs": [%q]}`, name, of)
	}
	for want, nodes := range map[string][]string{
		"c a b":   {relu("c", "x"), relu("a", "x"), relu("b", "a")},
		"a b c d": {relu("b", "a"), relu("a", "x"), relu("c", "x"), relu("d", "b")},
		"e b a":   {relu("e", "x"), relu("a", "b"), relu("b", "x")},
	} {
		if got := names(mustLoad(t, node(strings.Join(nodes, ",\n")))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAnyOrderLoads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lines := strings.Split(strings.TrimSuffix(chain(200, false), `], "outputs": ["n199"]}`), "\n")
	head, nodes := lines[0], lines[1:]
	for i := range nodes {
		nodes[i] = strings.TrimSuffix(nodes[i], ",")
	}
	want := names(mustLoad(t, chain(200, false)))
	for range 20 {
		r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		g := mustLoad(t, head+strings.Join(nodes, ",\n")+`], "outputs": ["n199"]}`)
		if got := names(g); got != want {
			t.Fatalf("got %s", got)
		}
		must(t, graph.Verify(g, graph.Sorted|graph.Typed))
	}
}

func TestLongChainsAndWideGraphs(t *testing.T) {
	// A quadratic order would take hours here, a recursive one exhaust the stack.
	g := mustLoad(t, chain(100_000, true))
	if g.Nodes[0].Name != "n0" || g.Nodes[99_999].Name != "n99999" {
		t.Error("the chain is not in order")
	}
	var wide []string
	for i := range 50_000 {
		wide = append(wide, fmt.Sprintf(`{"name": "n%d", "op": "relu", "inputs": ["hub"]}`, i))
	}
	wide = append(wide, `{"name": "hub", "op": "relu", "inputs": ["x"]}`)
	if g := mustLoad(t, node(strings.Join(wide, ",\n"))); g.Nodes[0].Name != "hub" {
		t.Error("the hub is not first")
	}
}

func TestEveryCycleIsNamed(t *testing.T) {
	add := func(name, a, b string) string {
		return fmt.Sprintf(`{"name": %q, "op": "add", "inputs": [%q, %q]}`, name, a, b)
	}
	_, err := load(node(strings.Join([]string{add("a", "x", "c"), add("b", "a", "a"), add("c", "b", "d"),
		add("d", "c", "x"),
		add("s", "s", "s"), add("p", "q", "q"), add("q", "p", "a"), add("fine", "x", "x")}, ",\n")))
	want := `g.json:4:11: node "a" (add): the graph has a cycle: a -> b -> c -> a
g.json:8:1: node "s" (add): the graph has a cycle: s -> s
g.json:9:1: node "p" (add): the graph has a cycle: p -> q -> p`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestLongCycle(t *testing.T) {
	for _, nodes := range []int{20_000, 70_000} { // graph.Sort treats the longer one differently
		last := fmt.Sprintf(`"inputs": ["n%d", "x"]`, nodes-1)
		_, err := load(strings.Replace(chain(nodes, false), `"inputs": ["x", "x"]`, last, 1))
		if err == nil || strings.Count(err.Error(), " -> ") != nodes {
			t.Errorf("the cycle of %d nodes is not named whole", nodes)
		}
	}
}

// TestCyclesOfRandomGraphs compares the errors with the transitive closure.
func TestCyclesOfRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range testsize.Of(200, 5000) {
		var nodes []string
		var uses [cycleNodes][cycleNodes]bool
		for i := range uses {
			operands := [2]string{"x", "x"}
			for k := range operands {
				if j := r.IntN(cycleNodes + 4); j < cycleNodes {
					operands[k], uses[i][j] = fmt.Sprintf("n%d", j), true
				}
			}
			nodes = append(nodes, fmt.Sprintf(`{"name": "n%d", "op": "add", "inputs": [%q, %q]}`, i, operands[0], operands[1]))
		}
		_, err := load(node(strings.Join(nodes, ",\n")))
		var got []string
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				_, cycle, found := strings.Cut(line, "the graph has a cycle: ")
				require.True(t, found, line)
				path := strings.Split(cycle, " -> ")
				for k := range path[1:] {
					var i, j int
					_, err := fmt.Sscanf(path[k+1]+path[k], "n%dn%d", &i, &j)
					require.NoError(t, err)
					require.True(t, uses[i][j], cycle)
				}
				got = append(got, fmt.Sprintf("%s %d", path[0], len(path)-1))
			}
		}
		require.ElementsMatch(t, cyclesOf(uses), got, nodes)
	}
}

const cycleNodes = 7

// cyclesOf lists the first node and the length of each cycle that is an error: one for every node that uses itself, and
// the shortest one through the first node of every set of nodes that depend on each other.
func cyclesOf(uses [cycleNodes][cycleNodes]bool) (list []string) {
	const none = 100
	var distance [cycleNodes][cycleNodes]int
	for i := range uses {
		for j := range uses {
			distance[i][j] = none
			if uses[i][j] && i != j {
				distance[i][j] = 1
			}
		}
		if uses[i][i] {
			list = append(list, fmt.Sprintf("n%d 1", i))
		}
	}
	for k := range uses {
		for i := range uses {
			for j := range uses {
				distance[i][j] = min(distance[i][j], distance[i][k]+distance[k][j])
			}
		}
	}
	for i := range uses {
		first := distance[i][i] < none
		for j := range i {
			first = first && (distance[i][j] >= none || distance[j][i] >= none)
		}
		if first {
			list = append(list, fmt.Sprintf("n%d %d", i, distance[i][i]))
		}
	}
	return list
}
