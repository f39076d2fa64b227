package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/inspect"
)

// Conditions of a case that are alternatives are told apart from those that all hold.
func TestCaseText(t *testing.T) {
	for want, c := range map[string]inspect.Case{
		"all sizes":                                {},
		"Lt(N, 3) | Eq(L, 1)":                      {Holds: []string{"Lt(N, 3) | Eq(L, 1)"}},
		"Le(1, N) & (Lt(N, 3) | Eq(L, 1))":         {Holds: []string{"Le(1, N)", "Lt(N, 3) | Eq(L, 1)"}},
		"Lt(N, 1) (the graph rejects these sizes)": {Holds: []string{"Lt(N, 1)"}, Refused: true},
	} {
		assert.Equal(t, want, caseText(c))
	}
}

// TestBestTimedOut checks the sentence about a search for plans that the time limit ended.
func TestBestTimedOut(t *testing.T) {
	const sentence = "; the time limit ended the search: 1 of 3 plans found"
	for _, timedOut := range []bool{false, true} {
		text := bestText(&Document{Best: make([]experiment.Choice, 1), BestTimedOut: timedOut, BestWanted: 3})
		assert.Equal(t, timedOut, strings.Contains(text, sentence), text)
	}
}
