package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
)

// verdictText returns the verdict of a comparison as text.
func (c *Comparison) verdictText() string {
	list := c.differencesText(c.plans())
	if unreached := c.Verdict.Unreached; len(unreached) > 0 {
		list = append(list, "the confidence interval of "+enumerate(unreached)+" is wider than demanded")
	}
	return strings.Join(list, "; ")
}

// differencesText returns sentences with the fastest plans, and how much slower the other plans are. If there are too
// few runs to find a difference, a sentence says so.
func (c *Comparison) differencesText(plans []planTime) []string {
	if n := c.Verdict.FewestRuns; n != nil {
		return []string{tooFewText(plans, c.Rows[0].Runs, *n)}
	}
	isFastest := func(p planTime) bool { return slices.Contains(c.Verdict.Fastest, p.name) }
	fastest := slices.DeleteFunc(slices.Clone(plans), func(p planTime) bool { return !isFastest(p) })
	list := []string{fastestText(fastest, len(plans), len(c.Rows))}
	for _, p := range plans {
		if isFastest(p) {
			continue
		}
		// A noisy plan may have the least median without a significant difference from p.
		fasterIndex := slices.IndexFunc(plans, func(f planTime) bool {
			pair := c.Verdict.pair(f.name, p.name)
			return pair != nil && pair.Significant
		})
		if fasterIndex < 0 {
			continue
		}
		comparedTo := ""
		if fasterIndex > 0 {
			comparedTo = " than " + plans[fasterIndex].name
			if p.ns >= 1.995*plans[fasterIndex].ns { // "takes 2.0 times as long as": see slowdownText
				comparedTo = " as " + plans[fasterIndex].name
			}
		}
		list = append(list, fmt.Sprintf("%s %s%s (p %s)", p.title, p.slowdownText(plans[fasterIndex].ns), comparedTo,
			pValueBound(c.Verdict.pair(plans[fasterIndex].name, p.name).PHolm)))
	}
	return append(list, c.unresolved(plans)...)
}

// planTime is a measured plan.
type planTime struct {
	name            string  // of the measured candidate
	title           string  // the names of all candidates with the plan
	ns              float64 // median time of a run
	hasOneCandidate bool    // only one candidate has the plan
}

// plans returns the measured plans, the fastest first.
func (c *Comparison) plans() []planTime {
	var list []planTime
	for _, row := range c.Rows {
		if row.MeasuredAs != "" {
			continue
		}
		p := planTime{name: row.Name, title: row.Name, ns: *row.Median, hasOneCandidate: true}
		for _, group := range c.Verdict.SamePlan {
			if group[0] == row.Name {
				p.title, p.hasOneCandidate = enumerate(group)+" (the same plan)", false
			}
		}
		list = append(list, p)
	}
	sorted.Func(list, func(a, b planTime) int { return cmp.Compare(a.ns, b.ns) })
	return list
}

// fastestText returns a text with the fastest plans. plans and candidates are the numbers of all measured plans and of
// all candidates.
func fastestText(fastest []planTime, plans, candidates int) string {
	first := fastest[0]
	switch {
	case candidates == 1:
		return first.name + " takes " + timeText(first.ns)
	case plans == 1:
		return "all candidates have the same plan: " + timeText(first.ns)
	case len(fastest) == 1 && first.hasOneCandidate:
		return first.title + " is fastest: " + timeText(first.ns)
	case len(fastest) == 1:
		return first.title + " are fastest: " + timeText(first.ns)
	}
	return "fastest, without a significant difference: " + mediansText(fastest)
}

// mediansText lists plans with their median times.
func mediansText(plans []planTime) string {
	var list []string
	for _, p := range plans {
		list = append(list, p.title+" "+timeText(p.ns))
	}
	return strings.Join(list, ", ")
}

// tooFewText returns the text for a number of runs with which no difference between plans can be significant. fewest
// is the least sufficient number.
func tooFewText(plans []planTime, runs, fewest int) string {
	verb := "runs are"
	if runs == 1 {
		verb = "run is"
	}
	return fmt.Sprintf("%d %s too few to find any difference between these plans: at least %d runs of each are needed; "+
		"lowest medians: %s", runs, verb, fewest, mediansText(plans[:min(len(plans), maxListedPlans)]))
}

// slowdownText returns a text with the slowdown of a plan relative to a faster plan, whose time is fasterNS.
func (p *planTime) slowdownText(fasterNS float64) string {
	verb, takes := "are", "take"
	if p.hasOneCandidate {
		verb, takes = "is", "takes"
	}
	switch ratio := p.ns / fasterNS; {
	case ratio >= 1.995: // at least 2.0 after rounding
		return fmt.Sprintf("%s %.1f times as long", takes, ratio)
	case ratio < 1.0095: // less than 1% after rounding to 0.1%
		return fmt.Sprintf("%s %.1f%% slower", verb, 100*(ratio-1))
	default:
		return fmt.Sprintf("%s %.0f%% slower", verb, 100*(ratio-1))
	}
}

// Bounds of the lists in the text of a verdict.
const (
	maxListedPairs = 4 // pairs without a significant difference
	maxListedPlans = 4 // plans with the lowest medians
)

// unresolved returns sentences about the pairs without a significant difference, except pairs of two fastest plans.
// They also give the number of runs that would find a difference of 2%.
func (c *Comparison) unresolved(plans []planTime) []string {
	var list, pairs []string
	isFastest := func(p planTime) bool { return slices.Contains(c.Verdict.Fastest, p.name) }
	for i, a := range plans {
		for _, b := range plans[i+1:] {
			if p := c.Verdict.pair(a.name, b.name); !p.Significant && !(isFastest(a) && isFastest(b)) {
				pairs = append(pairs, a.name+" and "+b.name)
			}
		}
	}
	if omittedCount := len(pairs) - maxListedPairs; omittedCount > 0 {
		pairs = append(pairs[:maxListedPairs], fmt.Sprintf("%d more pairs", omittedCount))
	}
	if len(pairs) > 0 {
		list = append(list, "no significant difference between "+strings.Join(pairs, ", "))
	}
	hasInsignificant := slices.ContainsFunc(c.Verdict.Pairs, func(p Pair) bool { return !p.Significant })
	switch n := c.Verdict.RunsFor2Percent; {
	case n != nil:
		list = append(list, fmt.Sprintf("%d runs of each would find a difference of 2%%", *n))
	case hasInsignificant:
		list = append(list, "times vary too much to estimate the number of runs that would find a difference of 2%")
	}
	return list
}

// timeText prints a time with its unit.
func timeText(ns float64) string {
	unit, cells := timeUnits.cells([]*float64{&ns})
	return cells[0] + " " + unit
}

// pValueBound prints a p-value: as a bound if it is below 0.001 or significant, otherwise as a number.
func pValueBound(p float64) string {
	for _, bound := range []float64{0.001, Significance} {
		if p < bound {
			return fmt.Sprintf("< %v", bound)
		}
	}
	return fmt.Sprintf("= %.2f", p)
}

// enumerate joins names: a, b and c.
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
