package catalogue

import (
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/kernels"
)

// TestMissingReasons checks that each missing name has a reason, and that each entry of the tables is needed: names in
// sameOp have no op of their own, and each pattern of a reason selects a missing name.
func TestMissingReasons(t *testing.T) {
	ops := opNamesOf(kernels.All())
	missing := missingNames(ops)
	if len(missing) == 0 {
		t.Fatal("no name is missing")
	}
	for _, m := range missing {
		if m.Reason == "" {
			t.Errorf("%s has no reason", m.Name)
		}
	}
	for name, op := range sameOp {
		i := slices.IndexFunc(suite(), func(s suiteName) bool { return s.name == name })
		if i < 0 {
			t.Errorf("%s is not in the suite", name)
			continue
		}
		if !slices.Contains(ops, op) {
			t.Errorf("%s: there is no op %s", name, op)
		}
		if suite()[i].isIn(slices.DeleteFunc(slices.Clone(ops), func(o string) bool { return o == op })) {
			t.Errorf("%s has an op without the entry", name)
		}
	}
	for _, r := range reasons {
		for _, p := range strings.Fields(r.patterns) {
			if !slices.ContainsFunc(missing, func(m MissingName) bool { return matchesAny([]string{p}, m.Name) }) {
				t.Errorf("%s: no name is missing", p)
			}
		}
	}
}
