package contiguity

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/sym"
)

// TestClaims proves true claims and refutes false ones by an example.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		text string
		rank int
		is   bool
	}{
		{"contiguous => non_overlapping_and_dense", 4, true},
		{"channels_last=>non_overlapping_and_dense", 4, true},
		{"non_overlapping_and_dense => contiguous", 2, false},
		{"non_overlapping_and_dense => contiguous", 1, true},
		{"contiguous & channels_last => non_overlapping_and_dense", 4, true},
		{"contiguous | ~contiguous", 3, true},
		{"contiguous => channels_last", 4, false},
		{"~(contiguous & channels_last)", 4, false},
		{"suggests_contiguous | suggests_channels_last", 4, true},
		{"channels_last => suggests_channels_last", 4, false},
		{"contiguous => (no_overlap => contiguous)", 2, true},
	} {
		claim, err := ParseClaim(c.text)
		require.NoError(t, err, c.text)
		r, err := ProveClaim(claim, c.rank)
		require.NoError(t, err, c.text)
		require.Equal(t, c.is, r.Proved, "%s: %v", c.text, r.Formula)
		if !c.is {
			require.Len(t, r.Sizes, c.rank, c.text)
			holds, known := claim.Condition(sym.Ints(r.Sizes...), sym.Ints(r.Strides...)).Known()
			assert.True(t, known && !holds, "%s does not refute %v by %v", c.text, r.Sizes, r.Strides)
		}
		assert.Contains(t, r.SMT(), "(check-sat)")
	}
}

func TestClaimMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"contigous => channels_last": `column 1: want a predicate, got "contigous"; did you mean contiguous?`,
		"contiguous =>":              `column 14: want a predicate, got the end of the claim`,
		"contiguous channels_last":   `column 12: want an operator or the end, got "channels_last"`,
		"(contiguous":                `column 12: want an operator or ), got the end of the claim`,
		"contiguous = channels_last": `column 12: want an operator or the end, got "="`,
		"":                           `column 1: want a predicate, got the end of the claim`,
	} {
		_, err := ParseClaim(text)
		assert.ErrorContains(t, err, want, text)
	}
	_, err := ProveClaim(Claim{}, 2)
	assert.Error(t, err)
}
