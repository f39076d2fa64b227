// Package sections prints parts of the text output of plans. Several commands print the same parts.
package sections

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
)

// WriteCopies prints copies with their reasons.
func WriteCopies(w io.Writer, display term.Display, title string, copies []report.Copy) {
	columns := []term.Column{term.NameCol("value"), term.ListCol("from"), term.ListCol("to"), term.UntruncatedCol("bytes"),
		term.UntruncatedCol("cost"), term.ProseCol("why")}
	term.WriteList(w, display, title, copies, columns, func(c report.Copy) []any {
		name := c.Value
		if c.Producer.Pinned != "" { // a copy from the computed layout of the value to its pinned layout
			name = c.Producer.Pinned + " before its pin"
		}
		to := format.Ints(c.To)
		if c.Transfer != "" {
			to = c.Transfer
		}
		return []any{name, format.Ints(c.From), to, c.Bytes, format.Nanoseconds(c.CostNS), c.Why}
	})
}

// PlacesText describes the work of a device in a clause that begins with a comma, such as ", 3 steps on cuda, 1 upload,
// 2 downloads". It is empty for nil.
func PlacesText(places *report.Places) string {
	switch {
	case places == nil:
		return ""
	case places.Steps+places.Uploads+places.Downloads == 0:
		return ", no step on " + places.Device
	}
	return fmt.Sprintf(", %s on %s, %s, %s", format.Count(places.Steps, "step"), places.Device,
		format.Count(places.Uploads, "upload"), format.Count(places.Downloads, "download"))
}

// maxUnfused is the maximum number of pairs of nodes that are printed for one reason.
const maxUnfused = 5

// WriteUnfused prints the pairs of nodes that were not fused, grouped by reason, rare reasons first. For a frequent
// reason it prints only the first pairs and the number of further pairs.
func WriteUnfused(w io.Writer, display term.Display, list []report.Unfused) {
	counts, shown := map[string]int{}, []report.Unfused{} // counts is the number of pairs by reason
	for _, pair := range list {
		counts[pair.Why]++
		if counts[pair.Why] <= maxUnfused {
			shown = append(shown, pair)
		}
	}
	sorted.Func(shown, func(a, b report.Unfused) int {
		return cmp.Or(cmp.Compare(counts[a.Why], counts[b.Why]), cmp.Compare(a.Why, b.Why))
	})
	for i := range shown {
		why := shown[i].Why
		isLast := i+1 == len(shown) || shown[i+1].Why != why // the last shown pair with this reason
		if isLast && counts[why] > maxUnfused {
			shown[i].Why = fmt.Sprintf("%s; and %d more pairs", why, counts[why]-maxUnfused)
		}
	}
	term.WriteList(w, display, "Not fused", shown, []term.Column{term.NameCol("node"), term.NameCol("reader"),
		term.ProseCol("why")},
		func(a report.Unfused) []any { return []any{a.Node, a.Reader, a.Why} })
}

// BoundText describes the proved lower bound on the cost of a plan, and the gap to this bound; "" without a bound. The
// bound applies to the cost before the saving by in-place results (SavedNS) is subtracted.
func BoundText(plan *report.Plan) string {
	if plan.LowerBoundNS == nil {
		return ""
	}
	text := "proved: least cost among the forms considered, at the stated prices"
	if !plan.Optimal {
		boundNS, costNS := *plan.LowerBoundNS, plan.CostNS+plan.SavedNS
		text = fmt.Sprintf("proved lower bound %s, gap %s (%.2g%%)", format.Nanoseconds(boundNS),
			format.Nanoseconds(costNS-boundNS), 100*(costNS/max(boundNS, 1)-1))
	}
	if plan.SavedNS != 0 {
		text += "; in-place results save another " + format.Nanoseconds(plan.SavedNS)
	}
	return text
}

// SlackText returns the number of copies of a plan that was made with --slack, the additional cost, and the proved
// lower bound on the number of copies. It returns "" for other plans.
func SlackText(plan *report.Plan) string {
	fewest := plan.FewestCopies
	if fewest == nil || fewest.Slack == 0 {
		return ""
	}
	extraCost := format.Nanoseconds(fewest.ExtraNS)
	if plan.LowerBoundNS != nil && *plan.LowerBoundNS > 0 {
		extraCost += fmt.Sprintf(" (%.2g%%)", 100*fewest.ExtraNS / *plan.LowerBoundNS)
	}
	text := fmt.Sprintf("%s for %s more than the lower bound; ", format.CountIrregular(fewest.Copies, "copy", "copies"),
		extraCost)
	if fewest.Proved {
		return text + fmt.Sprintf("proved: no plan within the slack of %.3g%% has fewer", 100*fewest.Slack)
	}
	return text + fmt.Sprintf("a plan within the slack of %.3g%% has at least %d", 100*fewest.Slack, fewest.AtLeast)
}

// ProfileText describes the cost profile of a plan.
func ProfileText(profile report.Profile) string {
	if profile.Prices > 0 {
		return fmt.Sprintf("%s and %s", ratesText(profile), format.Count(profile.Prices, "measured price"))
	}
	return ratesText(profile)
}

// ratesText describes a profile without its prices of single nodes.
func ratesText(profile report.Profile) string {
	digest := profile.Digest
	if len(digest) > ShortDigest {
		digest = digest[:ShortDigest]
	}
	switch {
	case profile.Default && profile.Estimated:
		return fmt.Sprintf("the default profile for %s, estimated (%s)", profile.Instructions, digest)
	case profile.Default:
		return fmt.Sprintf("the default profile for %s (%s)", profile.Instructions, digest)
	}
	date, _, _ := strings.Cut(profile.Measured, "T")
	return fmt.Sprintf("a profile for %s, measured %s (%s)", profile.Instructions,
		cmp.Or(date, "on an unknown date"), digest)
}

// ShortDigest is the length of digests in text output.
const ShortDigest = 12

// WriteMemory prints the memory that a run of a plan needs, and a message if the available memory is less.
func WriteMemory(w io.Writer, display term.Display, need graphrun.Need, plan *report.Plan) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Memory of a run"))
	t := term.NewTable(term.NameCol("for"), term.UntruncatedCol("bytes"))
	for _, c := range need.Categories() {
		t.Add(c.Name, format.Bytes(c.Bytes))
	}
	t.Add("all (--max-memory)", format.Bytes(need.Total()))
	t.Add("all but inputs (\"weights\" in compare and diff)", format.Bytes(plan.Costs().PeakWithWeights))
	if need.DeviceConstants+need.DeviceArena > 0 {
		t.Add("constants on the device", format.Bytes(need.DeviceConstants))
		t.Add("arena on the device", format.Bytes(need.DeviceArena))
	}
	t.Write(w, display)
	if need.Originals > 0 {
		fmt.Fprintln(w, format.Wrap(fmt.Sprintf("%s of the constants are original weights that no run reads. They are "+
			"kept because they cannot be restored from their packed form.", format.Bytes(need.Originals)),
			display.ProseWidth()))
	}
	const limit = 0 // the memory that is available to the process
	var memoryErr *graphrun.MemoryError
	if errors.As(need.Check(limit, need.Held()), &memoryErr) {
		fmt.Fprintf(w, "That exceeds the available memory: %s is %s, of which %s is left.\n",
			memoryErr.From, format.Bytes(memoryErr.Limit), format.Bytes(memoryErr.Left))
	}
}

// WriteSegments prints the segments of a graph, if it has any.
func WriteSegments(w io.Writer, display term.Display, segments []report.Segment) {
	if len(segments) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Segments"))
	fmt.Fprintln(w, "each is planned when the layouts and sizes of its inputs are known; "+
		"a size that depends on data has no assumed value")
	const nodesWidth, valuesWidth = 20, 16 // least widths of columns
	t := term.NewTable(term.UntruncatedCol("segment"), term.PhraseCol("nodes", nodesWidth),
		term.UntruncatedCol("planned"), term.UntruncatedCol("after"), term.PhraseCol("waits for", valuesWidth),
		term.PhraseCol("gives", valuesWidth))
	for _, segment := range segments {
		planned := "in a run"
		switch {
		case segment.Planned:
			planned = "here"
		case segment.DecidesShapes: // a single node whose results determine shapes
			planned = "-"
		}
		awaited := make([]string, 0, len(segment.Inputs)+len(segment.Awaits))
		for _, v := range segment.Inputs {
			awaited = append(awaited, v.Name)
		}
		for _, name := range segment.Awaits {
			awaited = append(awaited, name+" (attribute)")
		}
		results := make([]string, len(segment.Outputs))
		for i, v := range segment.Outputs {
			results[i] = fmt.Sprintf("%s %s%s", v.Name, dtypeText(v.DType), v.Shape.String())
		}
		t.Add(segment.Segment, format.JoinFirst(segment.Nodes), planned, format.Ints(segment.After),
			format.JoinFirst(awaited), format.JoinFirst(results))
	}
	t.Write(w, display)
}

// dtypeText returns the name of a dtype, or "?" for nil, which stands for an unknown dtype.
func dtypeText(dtype *string) string {
	if dtype == nil {
		return "?"
	}
	return *dtype
}
