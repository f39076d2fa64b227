package contiguity

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/sym"
)

// TestBothFormsAgree proves every predicate for all of its ranks, and its induction.
func TestBothFormsAgree(t *testing.T) {
	for _, predicate := range Predicates {
		for rank := range 7 {
			if predicate.Rank != 0 && rank != predicate.Rank {
				continue
			}
			p, err := Prove(predicate, rank)
			require.NoError(t, err, predicate.Name)
			assert.True(t, p.Proved, "%s, rank %d: %+v", predicate.Name, rank, p.Counterexample)
			assert.NotEmpty(t, p.Paths)
			assert.NotEmpty(t, p.Steps)
			t.Logf("%s, rank %d: %d atoms, %d ways", predicate.Name, rank, len(p.Atoms), len(p.Paths))
		}
	}
}

// TestWrongFormulasAreRefuted checks that a wrong formula is not proved, and gets a counterexample.
func TestWrongFormulasAreRefuted(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong func(shape, strides []sym.Int) sym.Bool
		right func(shape, strides []sym.Int) bool
	}{
		{"size 0 forgotten", func(shape, strides []sym.Int) sym.Bool {
			all, _ := denseFormulaFrom(rowMajorOrder(len(shape)), shape, strides, one())
			return all
		}, contiguousBranches},
		{"size 1 counted", func(shape, strides []sym.Int) sym.Bool {
			all, step := numel(shape).Eq(sym.Int{}), one()
			for d := len(shape) - 1; d >= 0; d-- {
				all, step = all.Or(strides[d].Eq(step)), step.Mul(shape[d])
			}
			return all
		}, contiguousBranches},
		{"density without contiguity", sortedDenseFormula, nonOverlappingAndDenseBranches},
		{"reach for product", noOverlapFormula, nonOverlappingAndDenseBranches},
	} {
		p, err := Prove(Predicate{Name: c.name, Condition: c.wrong, Branches: c.right}, 2)
		require.NoError(t, err)
		require.False(t, p.Proved, c.name)
		require.NotNil(t, p.Counterexample, c.name)
		require.Len(t, p.Counterexample.Sizes, 2, c.name)
		sizes, strides := sym.Ints(p.Counterexample.Sizes...), sym.Ints(p.Counterexample.Strides...)
		formula, known := c.wrong(sizes, strides).Known()
		require.True(t, known)
		assert.NotEqual(t, c.right(sizes, strides), formula, "%s: %+v", c.name, p.Counterexample)
		taken, err := p.Counterexample.Path.Condition.At(sym.Binding{"x1": p.Counterexample.Sizes[0],
			"x2": p.Counterexample.Sizes[1], "y1": p.Counterexample.Strides[0], "y2": p.Counterexample.Strides[1]})
		require.NoError(t, err)
		assert.True(t, taken, "%s: %+v", c.name, p.Counterexample)
	}
	holds, _, err := (Step{Check: func(symbol func(string) sym.Int) bool {
		return symbol("s").Gt(one()).Holds()
	}}).checkAllPaths()
	require.NoError(t, err)
	assert.False(t, holds)
}

// TestFormsAgreeOnNumbers compares both forms of every predicate on all small values, without symbols.
func TestFormsAgreeOnNumbers(t *testing.T) {
	seen := map[string][2]int{}
	for _, predicate := range Predicates {
		for rank := range 4 {
			if predicate.Rank != 0 {
				continue
			}
			numbers := make([]int, 2*rank)
			for more := true; more; {
				shape, strides := sym.Ints(numbers[:rank]...), sym.Ints(numbers[rank:]...)
				formula, known := predicate.Condition(shape, strides).Known()
				require.True(t, known)
				require.Equal(t, predicate.Branches(shape, strides), formula, "%s of %v", predicate.Name, numbers)
				n := seen[predicate.Name]
				if formula {
					n[1]++
				}
				n[0]++
				seen[predicate.Name] = n
				more = false
				for i := range numbers {
					top := 4
					if i >= rank {
						top = 7
					}
					if numbers[i]++; numbers[i] < top {
						more = true
						break
					}
					numbers[i] = 0
				}
			}
		}
	}
	require.Less(t, 0, seen["no_overlap"][1])
	require.Less(t, seen["no_overlap"][1], seen["no_overlap"][0])
}

func TestProveRefusals(t *testing.T) {
	_, err := Prove(Predicates[0], 7)
	assert.EqualError(t, err, "contiguity: rank 7: want 0 to 6; greater ranks follow by induction")
	_, err = Prove(Predicates[1], 3)
	assert.EqualError(t, err, "contiguity: channels_last exists for rank 4 only, not for rank 3")
	_, err = Prove(Predicate{}, 3)
	assert.EqualError(t, err, `contiguity: predicate "" lacks Condition or Branches`)
}

func TestSMT(t *testing.T) {
	p, err := Prove(Predicates[0], 2)
	require.NoError(t, err)
	assert.Contains(t, p.SMT(), "(declare-const |x1| Int)\n(assert (<= 0 |x1|))\n")
	assert.Contains(t, p.SMT(), "(check-sat)\n")
}
