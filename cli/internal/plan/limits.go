package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/report"
)

// limits holds the flags --max-copies and --max-memory.
type limits struct {
	maxCopies    int
	hasMaxCopies bool   // whether --max-copies is given
	memoryText   string // the value of --max-memory as written; empty if it is not given
	maxBytes     int    // the value of --max-memory in bytes
	unmet        bool   // whether fitMemory found no plan within --max-memory
	slackIgnored bool   // whether fitMemory compared plans by cost alone although --slack is above 0
}

func (l *limits) addFlags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.maxCopies, "max-copies", 0, "fail if more than `N` copies are inserted (copies of "+
		"constants do not count), and list them with their reasons")
	cmd.Flags().StringVar(&l.memoryText, "max-memory", "", "reject plans whose run needs more than `BYTES`, such as "+
		"64MiB, and take the cheapest plan found within the limit instead")
}

func (l *limits) check(cmd *cobra.Command) (err error) {
	l.hasMaxCopies = cmd.Flags().Changed("max-copies")
	if l.maxCopies < 0 {
		return exit.UsageErrorf("--max-copies %d: want at least 0", l.maxCopies)
	}
	if l.memoryText == "" {
		return nil
	}
	if l.maxBytes, err = parseBytes(l.memoryText); err != nil {
		return exit.UsageErrorf("--max-memory %s: %w", l.memoryText, err)
	}
	return nil
}

// bytesPerUnit maps a unit to its number of bytes.
var bytesPerUnit = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}

// parseBytes parses a number of bytes such as 64MiB, 1.5 GB or 4096.
func parseBytes(text string) (int, error) {
	end := strings.LastIndexAny(text, "0123456789.") + 1 // end of the number, start of the unit
	unit, known := bytesPerUnit[strings.TrimSpace(text[end:])]
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || !known || n < 0 || n*unit >= math.MaxInt {
		return 0, errors.New("want a size such as 64MiB, 1.5GB or 4096")
	}
	return int(n * unit), nil
}

// bytesNeeded returns the memory of a run in bytes, which --max-memory limits.
func bytesNeeded(plan *report.Plan) int { return plan.Memory.Total }

// fitMemory returns requestedProgram if it needs at most --max-memory. Otherwise it tries the plans of other
// strategies, and then solutions of the layout problem. It returns the cheapest program found within the limit, and its
// document, which lists the rejected plans. If it finds none, it sets unmet and returns the program that needs the
// least memory.
func (l *limits) fitMemory(ctx context.Context, ext *command.Extensions, requestedProgram *graphrun.Program,
	g *graph.Graph, options graphrun.Options) (*graphrun.Program, *Document, error) {
	requested := planDocOf(requestedProgram)
	if l.memoryText == "" || bytesNeeded(&requested.Plan) <= l.maxBytes {
		return requestedProgram, requested, nil
	}
	l.slackIgnored = options.Slack > 0
	search := memorySearch{ext: ext, limit: l.maxBytes, graph: g, options: options,
		rejected: []RejectedPlan{rejectedOf(requested)}, smallest: examinedPlan{requestedProgram, requested}}
	search.options.Dump = nil // --dump prints the graphs of the requested strategy only
	for _, s := range search.ext.Strategies() {
		if s.Name() == requested.Strategy {
			continue
		}
		const listed = true
		if _, err := search.try(ctx, s, listed); err != nil {
			return nil, nil, err
		}
	}
	within, err := search.trySolutions(ctx, requestedProgram)
	if err != nil {
		return nil, nil, err
	}
	chosen := search.cheapest
	if chosen.program == nil {
		l.unmet = true
		chosen = search.smallest
	}
	chosen.doc.Rejected, chosen.doc.Within = search.rejected, within
	return chosen.program, chosen.doc, nil
}

// memorySearch searches for the cheapest plan within a memory limit.
type memorySearch struct {
	ext      *command.Extensions
	limit    int // in bytes
	graph    *graph.Graph
	options  graphrun.Options
	rejected []RejectedPlan
	smallest examinedPlan // the plan above the limit that needs the least memory
	cheapest examinedPlan // the cheapest plan within the limit so far; its program is nil if there is none
}

// examinedPlan is a compiled plan and its document.
type examinedPlan struct {
	program *graphrun.Program
	doc     *Document
}

// try compiles the plan of a strategy, and updates cheapest or smallest. It returns the bytes that a run needs. If
// listed is true, a plan above the limit is added to rejected.
func (search *memorySearch) try(ctx context.Context, strategy graphrun.Strategy, listed bool) (bytes int, err error) {
	search.options.Strategy = strategy
	compiled, err := search.ext.Compile(ctx, search.graph, search.options)
	if errors.As(err, new(*graphrun.MemoryError)) { // the memory of the device
		return math.MaxInt, nil
	}
	if err != nil {
		return 0, err
	}
	doc := planDocOf(compiled)
	bytes = bytesNeeded(&doc.Plan)
	switch {
	case bytes > search.limit:
		if listed {
			search.rejected = append(search.rejected, rejectedOf(doc))
		}
		if bytes < bytesNeeded(&search.smallest.doc.Plan) {
			search.smallest = examinedPlan{compiled, doc}
		}
	case search.cheapest.program == nil || doc.CostNS < search.cheapest.doc.CostNS:
		search.cheapest = examinedPlan{compiled, doc}
	}
	return bytes, nil
}

// trySolutions compiles solutions of the layout problem by [experiment.CheapestWithin], and updates cheapest and
// smallest. It returns the bounds that the search proves for all plans of the problem, as a part of the document. It
// returns nil if the problem cannot be solved.
func (search *memorySearch) trySolutions(ctx context.Context, requested *graphrun.Program) (*WithinMemory, error) {
	knownCost := math.Inf(1) // plans that cost more need not be examined
	if search.cheapest.program != nil {
		knownCost = search.cheapest.doc.CostNS
	}
	var compileErr error // an error of the function need; CheapestWithin also returns other errors
	need := func(c experiment.Choice) (bytes int, err error) {
		const listed = false // the document has only the number of these plans
		bytes, compileErr = search.try(ctx, c.Strategy(), listed)
		return bytes, compileErr
	}
	found, err := experiment.CheapestWithin(ctx, requested, search.limit, knownCost, need)
	if compileErr != nil {
		return nil, compileErr
	}
	if err != nil {
		return nil, nil // shapes depend on data, or the problem is too large: only strategies give plans
	}
	// found.Rejected is the number of examined plans that need more memory.
	result := &WithinMemory{Tried: found.Rejected, LowerBoundNS: found.LowerBoundNS, LeastBytes: found.LeastBytes}
	result.Optimal = search.costsAtMost(result.LowerBoundNS)
	if result.Optimal {
		result.LowerBoundNS = search.cheapest.doc.CostNS
	}
	return result, nil
}

// costsAtMost reports whether there is a plan within the limit that costs at most ns nanoseconds, up to rounding
// errors.
func (search *memorySearch) costsAtMost(ns float64) bool {
	return search.cheapest.program != nil && search.cheapest.doc.CostNS <= ns*(1+1e-9)
}

func rejectedOf(doc *Document) RejectedPlan {
	return RejectedPlan{Strategy: doc.Strategy, Bytes: bytesNeeded(&doc.Plan), CostNS: doc.CostNS}
}

// largestListed is the number of values that the error of --max-memory lists.
const largestListed = 3

// checkMemory returns an error if fitMemory found no plan within --max-memory. doc is then the plan that needs the
// least memory.
func (l *limits) checkMemory(doc *Document) error {
	if !l.unmet {
		return nil
	}
	examined := len(doc.Rejected)
	if doc.Within != nil {
		examined += doc.Within.Tried
	}
	text := fmt.Sprintf("%s; the plan of %s needs %s, the least of the %s examined", l.unmetText(doc), doc.Strategy,
		format.Bytes(bytesNeeded(&doc.Plan)), format.Count(examined, "plan"))
	var values []string
	for _, value := range doc.Memory.Largest[:min(len(doc.Memory.Largest), largestListed)] {
		values = append(values, fmt.Sprintf("%s %q, %s", value.Kind, value.Name, format.Bytes(value.Bytes)))
	}
	if values != nil {
		text += "; its largest values are " + strings.Join(values, "; ")
	}
	return errors.New(text)
}

// unmetText returns the message that no plan meets --max-memory. If this is proved, the message has the least memory
// that a plan needs. Otherwise the message says that no plan was found.
func (l *limits) unmetText(doc *Document) string {
	if within := doc.Within; within != nil && within.LeastBytes > l.maxBytes {
		return fmt.Sprintf("no plan needs at most --max-memory %s: every plan needs at least %s", l.memoryText,
			format.Bytes(within.LeastBytes))
	}
	return "no plan was found that needs at most --max-memory " + l.memoryText
}

// rejectedTexts returns sentences about the plan of --strategy if --max-memory rejected it: its memory, the difference
// in cost, and a bound on the cost of plans within the limit.
func (l *limits) rejectedTexts(doc *Document) (list []string) {
	if len(doc.Rejected) == 0 || l.unmet {
		return nil
	}
	requested := doc.Rejected[0]
	list = append(list, fmt.Sprintf("a run of the plan of %s needs %s, more than --max-memory %s", requested.Strategy,
		format.Bytes(requested.Bytes), l.memoryText),
		fmt.Sprintf("%s needs %s, for an estimated cost of %s instead of %s: %s", doc.Strategy,
			format.Bytes(bytesNeeded(&doc.Plan)), format.Nanoseconds(doc.CostNS), format.Nanoseconds(requested.CostNS),
			format.Difference(requested.CostNS, doc.CostNS, format.Nanoseconds)))
	if l.slackIgnored {
		list = append(list, "--slack does not apply to this plan: plans within --max-memory are compared by cost alone")
	}
	if within := doc.Within; within != nil && within.Optimal {
		list = append(list, "it is the cheapest plan within the limit")
	} else if within != nil {
		list = append(list, "a plan within the limit costs at least "+format.Nanoseconds(within.LowerBoundNS))
	}
	return list
}

// countedCopies returns the copies that --max-copies counts: copies of constants do not count.
func countedCopies(g *graph.Graph, copies []report.Copy) (list []report.Copy) {
	for _, c := range copies {
		if v := g.Value(c.Value); v == nil || v.Const == nil {
			list = append(list, c)
		}
	}
	return list
}

// checkCopies returns an error that lists the copies if there are more than --max-copies.
func (l *limits) checkCopies(g *graph.Graph, copies []report.Copy) error {
	counted := countedCopies(g, copies)
	n := len(counted)
	if !l.hasMaxCopies || n <= l.maxCopies {
		return nil
	}
	text := ""
	for _, c := range counted {
		text += fmt.Sprintf("\n  %s from %s to %s, %s, %s: %s", format.Printable(c.Value), format.Ints(c.From),
			format.Ints(c.To), format.Bytes(c.Bytes), format.Nanoseconds(c.CostNS), format.Printable(c.Why))
	}
	return fmt.Errorf("%s inserted, --max-copies allows %d:%s", format.CountIrregular(n, "copy is", "copies are"),
		l.maxCopies, text)
}
