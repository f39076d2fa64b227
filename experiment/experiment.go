// Package experiment compares programs: by measured times, by the differences of their plans, and by proofs about the
// costs of plans.
//
// [Compare] measures candidates side by side and tests whether they differ. A candidate is any compiled program, for
// example with a caller's strategy:
//
//	c, err := experiment.Compare(ctx, []experiment.Candidate{{Program: p}, {Program: q}}, in, experiment.Options{})
//	fmt.Print(c.Table())
//	fmt.Println(c.Verdict.Text)
//	d, err := experiment.Diff(p, q) // the values, copies and steps that differ, and their costs
//
// The other functions concern the layout problem of a graph, which strategy Optimal solves. [LowerBound] bounds the
// cost of any plan. [Best] returns the cheapest plans. [Sensitivity] varies the price of copies. [Advise] suggests
// other layouts of inputs and outputs. [Problem] returns the problem for other solvers. [Certify] returns a certificate
// of the cost of a plan, and [Verify] checks one; package passes/layout/wcsp/verify checks only the proof.
package experiment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphdigest"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
)

// Together returns the memory of simultaneous runs of programs of one graph, which share inputs and constants.
func Together(programs ...*graphrun.Program) graphrun.Need {
	list := make([]*program.Program, len(programs))
	for i, p := range programs {
		list[i] = p.Internal()
	}
	return program.CombinedNeed(list...)
}

// digestOf returns the sha256 of a graph, with the data of its constants. It panics when the context ends: see
// [interrupt.Check].
func digestOf(ctx context.Context, g *graph.Graph) (string, error) {
	h := sha256.New()
	if err := graphdigest.Write(ctx, h, g, graphdigest.DataWriter(ctx, h)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// identity identifies the plan of a program, and the layout problem that the plan solves, among programs of one graph.
// The problem consists of the graph, its sizes, its pins (layouts that the user demands), the passes and options, and
// the prices of the profile.
type identity struct {
	program       *program.Program
	planDigest    string // digest of the steps; empty if the time of a run depends on more than the plan
	problemDigest string // digest of the problem without the graph; empty if planned in segments or with KeepGoing
	cachedDigest  string // digest of the graph; empty until graphDigest computes it
}

// identityOf computes the digests of a program, except the digest of the graph. A binding has the plan and the compiled
// program for one set of sizes; Compile makes the first binding.
func identityOf(compiled *program.Program, plan *report.Plan) identity {
	id, options, binding := identity{program: compiled}, compiled.Options(), compiled.FirstBinding()
	if binding.Segmented() || options.KeepGoing {
		return id
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%v %q %q %t %t %d %s", binding.Graph.BoundSizes(), pinsOf(binding.Graph), passNames(plan),
		options.NoFusion, options.Exact, options.MemoryLimit, plan.Profile.Digest)
	id.problemDigest = hex.EncodeToString(digest.Sum(nil))
	if options.Tracer != nil { // a tracer may slow down the program, so the program is measured separately
		return id
	}
	digest.Reset()
	fmt.Fprintf(digest, "%d %+v %+v", cmp.Or(options.Threads, runtime.GOMAXPROCS(0)), plan.Memory, plan.PackedInRuns)
	hashSteps(digest, binding)
	id.planDigest = hex.EncodeToString(digest.Sum(nil))
	return id
}

// passNames returns the names of a plan's passes, in order.
func passNames(plan *report.Plan) []string {
	names := make([]string, len(plan.Passes))
	for i, pass := range plan.Passes {
		names[i] = pass.Pass
	}
	return names
}

// hashSteps hashes the constants, the steps in order, and the outputs of a program.
func hashSteps(digest hash.Hash, binding *program.Binding) {
	for _, v := range binding.Plan.Graph.Constants {
		fmt.Fprintf(digest, "\nconstant %s", quotedName(v))
		hashLayout(digest, v)
	}
	for _, step := range binding.Program.Steps() {
		hashStep(digest, step)
	}
	for _, output := range binding.Plan.Graph.Outputs {
		fmt.Fprintf(digest, "\noutput %q %s", output.Name, quotedName(output.Value))
	}
}

// hashStep hashes a step: computed nodes, implementation, loop, operands and results.
func hashStep(digest hash.Hash, step exec.Step) {
	node := step.Node
	fmt.Fprintf(digest, "\nstep %q %q %d %s", step.Name, step.Ops, step.Buffer, callText(node, quotedName))
	if node.Impl != nil {
		fmt.Fprintf(digest, " by %q", node.Impl.Name)
	}
	if step.Loop == nil {
		fmt.Fprintf(digest, " order %v", node.Walk.LoopOrder) // layouts of results are hashed below
	} else { // orders that differ only in coalesced dimensions or dimensions of size 1 run alike
		fmt.Fprintf(digest, " loop %v", step.Loop.WalkShape())
		for i := range step.Loop.Len() {
			fmt.Fprintf(digest, " %v", step.Loop.WalkStrides(i))
		}
	}
	for _, arg := range node.In {
		fmt.Fprintf(digest, "\n in %v %s", arg.Kind, quotedName(arg.Value))
		if arg.Kind == graph.NumberArg {
			fmt.Fprintf(digest, " %v:%v", arg.Number.DType(), arg.Number)
		}
	}
	for _, v := range node.Out {
		fmt.Fprintf(digest, "\n out %s of %s in %s", quotedName(v), quotedName(v.Alias), quotedName(v.ContainedIn))
		hashLayout(digest, v)
	}
}

// quotedName returns the name of a value in quotes, or "-" for nil.
func quotedName(v *graph.Value) string {
	if v == nil {
		return "-"
	}
	return strconv.Quote(v.Name)
}

// hashLayout hashes the dtype, the layout and the packed form of a value.
func hashLayout(digest hash.Hash, v *graph.Value) {
	fmt.Fprintf(digest, " %v %v %v %d", v.Meta.DType, v.Meta.Shape, v.Meta.Strides, v.Meta.Offset)
	if v.Packed != nil {
		fmt.Fprintf(digest, " packed %q", v.Packed.Format)
	}
}

// samePlan reports whether two programs of one graph run equal steps.
func (id *identity) samePlan(ctx context.Context, other *identity) bool {
	return id.planDigest != "" && id.planDigest == other.planDigest && id.sameGraph(ctx, other)
}

// sameProblem reports whether two programs choose layouts for one graph with equal sizes, pins, options and prices. A
// bound on the cost of any plan then holds for both programs.
func (id *identity) sameProblem(ctx context.Context, other *identity) bool {
	return id.problemDigest != "" && id.problemDigest == other.problemDigest && id.sameGraph(ctx, other)
}

// sameGraph reports whether two programs were compiled from one graph or from equal graphs.
func (id *identity) sameGraph(ctx context.Context, other *identity) bool {
	if id.program.SameOrigin(other.program) {
		return true
	}
	digest, otherDigest := id.graphDigest(ctx), other.graphDigest(ctx)
	return digest != "" && digest == otherDigest
}

// graphDigest returns a digest of the graph with the data of its constants, or "" if there is none.
func (id *identity) graphDigest(ctx context.Context) string {
	if id.cachedDigest == "" {
		id.cachedDigest, _ = digestUntil(ctx, id.program.FirstBinding().WithAllConstants())
	}
	return id.cachedDigest
}

// digestUntil is digestOf, but returns an error instead of a panic when the context ends.
func digestUntil(ctx context.Context, g *graph.Graph) (digest string, err error) {
	defer interrupt.Catch(&err)
	return digestOf(ctx, g)
}

// verdictText returns the verdict of a comparison as text: sentences, separated by semicolons. For example:
//
//	a is fastest: 14.2 ms; b is 3% slower (p < 0.001); c is 4% slower (p < 0.01);
//	d takes 2.6 times as long (p < 0.001); no significant difference between b and c;
//	140 runs of each would find a difference of 2%;
//	the confidence interval of c is wider than demanded
func (c *Comparison) verdictText() string {
	list := c.differencesText(c.plans())
	if unreached := c.Verdict.Unreached; len(unreached) > 0 {
		list = append(list, "the confidence interval of "+enumerate(unreached)+" is wider than demanded")
	}
	return strings.Join(list, "; ")
}

// differencesText returns sentences that name the fastest plans, state how much slower the other plans are, and list
// pairs without a significant difference. With too few runs to find any difference, it returns only tooFewText.
func (c *Comparison) differencesText(plans []planTime) []string {
	if n := c.Verdict.FewestRuns; n != nil {
		return []string{tooFewText(plans, c.Rows[0].Runs, *n)}
	}
	fastest := slices.DeleteFunc(slices.Clone(plans), func(p planTime) bool { return !c.isFastest(p) })
	list := []string{fastestText(fastest, len(plans), len(c.Rows))}
	for _, p := range plans {
		// p is compared with the fastest plan from which it differs significantly. This may be a plan other than plans[0],
		// because plans[0] may be noisy.
		fasterIndex := slices.IndexFunc(plans, func(f planTime) bool {
			pair := c.Verdict.pair(f.name, p.name) // nil if f is p
			return pair != nil && pair.Significant
		})
		if !c.isFastest(p) && fasterIndex >= 0 {
			list = append(list, c.slowerText(plans, p, fasterIndex))
		}
	}
	return append(list, c.unresolved(plans)...)
}

// isFastest reports whether a plan is one of the fastest.
func (c *Comparison) isFastest(p planTime) bool { return slices.Contains(c.Verdict.Fastest, p.name) }

// slowerText returns the sentence that p is slower than plans[fasterIndex]: "c is 20% slower than b (p < 0.001)". The
// sentence omits the name of plans[0]: "c is 20% slower (p < 0.001)".
func (c *Comparison) slowerText(plans []planTime, p planTime, fasterIndex int) string {
	faster := plans[fasterIndex]
	comparedTo := ""
	switch {
	case fasterIndex > 0 && p.ns/faster.ns >= factorRatio:
		comparedTo = " as " + faster.name
	case fasterIndex > 0:
		comparedTo = " than " + faster.name
	}
	return fmt.Sprintf("%s %s%s (p %s)", p.title, p.slowdownText(faster.ns), comparedTo,
		pValueText(c.Verdict.pair(faster.name, p.name).PHolm))
}

// planTime is a measured plan.
type planTime struct {
	name            string  // name of the measured candidate
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

// fastestText returns the sentence that names the fastest plans, with their median times. planCount is the number of
// measured plans, candidateCount the number of candidates.
func fastestText(fastest []planTime, planCount, candidateCount int) string {
	first := fastest[0]
	switch {
	case candidateCount == 1:
		return first.name + " takes " + timeText(first.ns)
	case planCount == 1:
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

// tooFewText returns the sentence that no difference between plans can be significant after the given number of runs.
// fewest is the least number of runs with which a difference can be significant.
func tooFewText(plans []planTime, runs, fewest int) string {
	verb := "runs are"
	if runs == 1 {
		verb = "run is"
	}
	return fmt.Sprintf("%d %s too few to find any difference between these plans: at least %d runs of each are needed; "+
		"lowest medians: %s", runs, verb, fewest, mediansText(plans[:min(len(plans), maxListedPlans)]))
}

// factorRatio is the minimum ratio of times that is given as a factor ("takes 2.0 times as long"). Smaller ratios are
// given in percent. At the limit, the factor rounds to 2.0 and the percentage to 100%.
const factorRatio = 1.995

// slowdownText returns the slowdown of a plan relative to a faster plan, whose time is fasterNS: "is 20% slower".
func (p *planTime) slowdownText(fasterNS float64) string {
	verb, takes := "are", "take"
	if p.hasOneCandidate {
		verb, takes = "is", "takes"
	}
	switch ratio := p.ns / fasterNS; {
	case ratio >= factorRatio:
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

// unresolved returns a sentence that lists the pairs without a significant difference. Pairs of two fastest plans are
// omitted. A second sentence has the number of runs that would find a difference of 2%.
func (c *Comparison) unresolved(plans []planTime) []string {
	var list, pairs []string
	for i, a := range plans {
		for _, b := range plans[i+1:] {
			if p := c.Verdict.pair(a.name, b.name); !p.Significant && !(c.isFastest(a) && c.isFastest(b)) {
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

// pValueText prints a p-value, with its relation: "< 0.001", "< 0.01" if it is significant, or "= 0.25".
func pValueText(p float64) string {
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
