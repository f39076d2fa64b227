package kernels

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
)

// TestCatalogueOf checks that a name that two families list is rejected.
func TestCatalogueOf(t *testing.T) {
	add, other := &graph.Op{Semantics: graph.Semantics{Name: "add"}}, &graph.Op{Semantics: graph.Semantics{Name: "add"}}
	byName, err := catalogueOf([][]*graph.Op{{add}, {{Semantics: graph.Semantics{Name: "sub"}}}})
	if err != nil || len(byName) != 2 || byName["add"] != add {
		t.Errorf("two ops give %v, %v", byName, err)
	}
	if _, err := catalogueOf([][]*graph.Op{{add}, {other}}); err == nil || err.Error() != "op add is listed twice" {
		t.Errorf("two ops of one name give %v", err)
	}
}
