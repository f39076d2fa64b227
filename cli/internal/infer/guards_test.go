package infer

import (
	"slices"
	"testing"
)

func TestJoinExclusions(t *testing.T) {
	for _, c := range []struct {
		least    int
		in, want []string
	}{
		{0, []string{"Ne(C, 0)", "Ne(D, 1)", "Ne(C, 1)"}, []string{"Ne(D, 1)", "Lt(1, C)"}},
		{0, []string{"Ne(C, 1)", "Ne(C, 0)", "Ne(C, 2)"}, []string{"Lt(2, C)"}},
		{1, []string{"Ne(C, 1)", "Ne(C, 2)"}, []string{"Lt(2, C)"}},
		{0, []string{"Ne(C, 1)", "Ne(C, 2)"}, []string{"Ne(C, 1)", "Ne(C, 2)"}},
		{0, []string{"Ne(C, 0)"}, []string{"Ne(C, 0)"}},
	} {
		var list []GuardDoc
		for _, cond := range c.in {
			list = append(list, GuardDoc{Condition: cond})
		}
		var got []string
		for _, g := range joinExclusions(list, "C", c.least) {
			got = append(got, g.Condition)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v from %d on: %v, want %v", c.in, c.least, got, c.want)
		}
	}
}
