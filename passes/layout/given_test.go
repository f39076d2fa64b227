package layout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// TestGiven applies labels in all the ways in which they may be written, and refuses what is none.
func TestGiven(t *testing.T) {
	m := convolved(t, 8)
	best, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{Proof: true})
	require.NoError(t, err)
	require.NotEmpty(t, best.Labels)
	var names, byName, wrongName []string
	for i, v := range m.WCSP.Variables {
		label := `"` + v.Labels[best.Labels[i]] + `"`
		names = append(names, label)
		byName = append(byName, `"`+v.Name+`": `+label)
		wrongName = append(wrongName, `"`+v.Name+`": "no such label"`)
	}
	var text strings.Builder
	require.NoError(t, best.Write(&text))
	list := func(l []string) string { return strings.Join(l, ", ") }
	for _, file := range []string{text.String(), `{"labels": [` + list(names) + `]}`, `{"labels": {` + list(byName) + `}}`,
		"0\n" + strings.Trim(fmt.Sprint(best.Labels), "[]") + "\n"} {
		s, err := ReadGiven(strings.NewReader(file))
		require.NoError(t, err, file)
		a, err := s.Choose(m.Problem)
		require.NoError(t, err, file)
		require.Equal(t, best.Labels, a.Solution.Labels)
		require.Equal(t, best.Cost, a.Solution.Cost)
	}
	for file, want := range map[string]string{
		`{"labels": [` + list(names[1:]) + `]}`:       "6 labels, but the problem has",
		`{"labels": {` + list(byName[1:]) + `}}`:      "variable 0",
		`{"labels": {` + list(wrongName) + `}}`:       `has no label "no such label"`,
		`{"labels": {"z": "", ` + list(byName) + `}}`: `the problem has no variable "z"`,
		`{"labels": [0, 0, 0, 0, 0, 0, 0, 0, 77]}`:    "",
		"77": "1 labels, but the problem has",
	} {
		s, err := ReadGiven(strings.NewReader(file))
		require.NoError(t, err, file)
		_, err = s.Choose(m.Problem)
		var given *GivenError
		require.ErrorAs(t, err, &given, file)
		require.ErrorContains(t, err, want, file)
	}
	for _, file := range []string{"", "{}", "[]", `{"labels": 3}`, `{"labels": null}`, `{"labels": [0.5]}`, `{"label": [0]}`,
		`{"version": 9, "labels": [0]}`, `{"labels": [0]} x`,
		"1 x", "x0=1 x1=0"} {
		_, err := ReadGiven(strings.NewReader(file))
		require.ErrorContains(t, err, "not a solution", file)
	}
	dear := *best
	dear.Cost++
	_, err = Given(&dear).Choose(m.Problem)
	require.ErrorContains(t, err, "its labels cost")
	_, err = Given(nil).Choose(m.Problem)
	require.Error(t, err)
}

// TestGivenInfeasible names the variables whose labels do not go together.
func TestGivenInfeasible(t *testing.T) {
	m := convolved(t, 8)
	best, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{})
	require.NoError(t, err)
	seen := 0
	for v := range m.WCSP.Variables {
		for l := range m.WCSP.Variables[v].Labels {
			s := &wcsp.Solution{Labels: append([]int(nil), best.Labels...)}
			s.Labels[v] = l
			if cost, _ := m.WCSP.Cost(s.Labels); cost < wcsp.Forbidden {
				continue
			}
			seen++
			_, err := Given(s).Choose(m.Problem)
			require.ErrorContains(t, err, "is forbidden")
			require.ErrorContains(t, err, m.WCSP.Variables[v].Name)
		}
	}
	require.Positive(t, seen)
}
