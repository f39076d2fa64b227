package passes_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/passes"
)

// TestAdd: passes behind the same pass keep their order, and an added pass may be behind another one.
func TestAdd(t *testing.T) {
	run := func(*passes.Plan) error { return nil }
	pass := func(name, after string) passes.Pass { return passes.Pass{Name: name, After: after, Run: run} }
	list, err := passes.Add(pass("a", ""), pass("b", "layout"), pass("c", "infer"), pass("d", "b"), pass("e", "layout"))
	require.NoError(t, err)
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	infer, chosen := slices.Index(names, "infer"), slices.Index(names, "layout")
	require.Equal(t, []string{"infer", "a", "c"}, names[infer:infer+3])
	require.Equal(t, []string{"layout", "b", "e", "d"}, names[chosen:chosen+4])
	require.Len(t, names, len(passes.Passes())+5)
	_, err = passes.Add(pass("a", "laoyut"))
	require.ErrorContains(t, err, `pass "a": the list has no pass "laoyut"; did you mean layout?`)
	_, err = passes.Add(pass("infer", ""))
	require.ErrorContains(t, err, `the list has a pass "infer" already`)
}
