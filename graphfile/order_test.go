package graphfile_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
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
	text := strings.Replace(chain(20_000, false), `"inputs": ["x", "x"]`, `"inputs": ["n19999", "x"]`, 1)
	_, err := load(text)
	if err == nil || strings.Count(err.Error(), " -> ") != 20_000 {
		t.Errorf("the cycle is not named whole")
	}
}
