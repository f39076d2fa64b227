package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/page"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/pricing"
)

// writeReport writes the measurements as an HTML page. The page has a summary, the command line, the time of a run, and
// memory over time. With a profile it also has predicted against measured times, the roofline, and tables of times by
// op and by step. path is the file of the graph.
func (r *runner) writeReport(w io.Writer, doc *Document, commandLine, path string) error {
	costProfile := cmp.Or(r.profile.costProfile, pricing.SharedDefaultProfile())
	about, err := page.About(commandLine, []string{path}, &r.program.Report().Profile)
	if err != nil {
		return err
	}
	html := page.Page{Title: command.FileLabel(path) + " under " + doc.Strategy, About: about,
		Summary: []string{doc.summary(command.FileLabel(path))}, Sections: []page.Section{doc.callsSection()},
		Warnings: doc.warnings()}
	if doc.ProfileDoc != nil {
		html.Sections = append(html.Sections, doc.predictionSection(), doc.rooflineSection(costProfile))
	}
	if memory := r.trace.memoryInUse(); len(memory) > 0 {
		html.Sections = append(html.Sections, memorySection(memory))
	}
	if doc.ProfileDoc != nil {
		html.Sections = append(html.Sections, doc.tableSections()...)
	}
	return html.Write(w)
}

// warnings returns the warnings of the page.
func (d *Document) warnings() []string {
	var list []string
	if d.Interrupted {
		list = append(list, "the measurement was interrupted")
	}
	if d.Noise != "" {
		list = append(list, disturbed+d.Noise)
	}
	return list
}

// summary returns the result in sentences.
func (d *Document) summary(name string) string {
	text := fmt.Sprintf("A run of %s takes %s with %s: the median of %s into existing tensors (RunInto)", name,
		format.Nanoseconds(*d.Into.Median), format.Count(d.Threads, "worker"), format.Count(d.Into.Runs, "run"))
	if d.Into.Low != nil {
		text += fmt.Sprintf(", 95%% confidence interval %s to %s", format.Nanoseconds(*d.Into.Low),
			format.Nanoseconds(*d.Into.High))
	}
	if d.Costs != nil {
		text += fmt.Sprintf(". The cost model predicts %s on one core", format.Nanoseconds(d.CostNS))
	}
	return text + "."
}

// The scales of timeAxis: values of isLogarithmic.
const linear, logarithmic = false, true

// timeAxis returns an axis of times in nanoseconds.
func timeAxis(title string, isLogarithmic bool) page.Axis {
	return page.Axis{Title: title, Format: format.Nanoseconds, Log: isLogarithmic}
}

// callsSection shows the times of the three ways to call a program.
func (d *Document) callsSection() page.Section {
	chart := &page.Intervals{Axis: timeAxis("median time of a run", linear), Reference: page.Missing()}
	if d.Costs != nil {
		chart.Reference, chart.ReferenceName = d.CostNS, "predicted on one core"
	}
	data := &page.Table{Name: "runs", Heads: []string{"call", "run", "ns"}}
	samples := [numMethods][]float64{d.Samples, d.RunReleased.Samples, d.Into.Samples}
	for method, spread := range [numMethods]experiment.Spread{d.Spread, d.RunReleased.Spread, d.Into.Spread} {
		if spread.Median == nil {
			continue
		}
		label := callMethod(method).String()
		row := page.Interval{Label: label, Value: *spread.Median, Low: page.Missing(), High: page.Missing(),
			Text: format.Nanoseconds(*spread.Median)}
		if spread.Low != nil {
			row.Low, row.High = *spread.Low, *spread.High
		}
		chart.Rows = append(chart.Rows, row)
		for i, ns := range samples[method] {
			data.Rows = append(data.Rows, []string{label, fmt.Sprint(i), fmt.Sprintf("%.0f", ns)})
		}
	}
	return page.Section{Title: "Time of a run", Chart: chart, Data: data,
		Note: "Medians with 95% confidence intervals; with too few runs there is no interval. Results of Run take new " +
			"memory; RunInto writes existing tensors."}
}

// maxNumbered is the number of steps whose points are labelled with the step's row in the table of steps.
const maxNumbered = 12

// pointName returns the name of a step's point in a chart: its number, with "?" if its time is doubtful; "" for none. i
// is the step's index in ByStep.
func pointName(i int, step *stepDoc) string {
	switch {
	case step.Doubt != "":
		return fmt.Sprintf("%d?", i+1)
	case i < maxNumbered:
		return fmt.Sprint(i + 1)
	}
	return ""
}

// doubtText returns the end of the label of a step's point.
func doubtText(step *stepDoc) string {
	if step.Doubt == "" {
		return ""
	}
	return "; doubtful: " + step.Doubt
}

// doubtNote explains the names of doubtful points; "" if there are none.
func (d *ProfileDoc) doubtNote() string {
	if !d.isDoubted() {
		return ""
	}
	return ` A number with "?" marks a doubtful time; the table of steps has the reason.`
}

// groups divides ops into groups, which have different marks in charts. Each of the three ops with the longest times is
// a group, and all other ops are the last group. names are the names of the groups. groupOf returns the index of an
// op's group.
func (d *ProfileDoc) groups() (names []string, groupOf func(op string) int) {
	for _, t := range d.ByOp[:min(3, len(d.ByOp))] {
		names = append(names, t.Op)
	}
	if len(d.ByOp) > len(names) {
		names = append(names, "other ops")
	}
	return names, func(op string) int {
		if i := slices.Index(names, op); i >= 0 {
			return i
		}
		return len(names) - 1
	}
}

// predictionSection compares the predicted time of each step with its measured time.
func (d *Document) predictionSection() page.Section {
	chart := &page.Scatter{X: timeAxis("predicted time of a step on one core", logarithmic),
		Y: timeAxis("measured time, sum of all workers", logarithmic)}
	var groupOf func(string) int
	chart.Groups, groupOf = d.groups()
	least, greatest := 0.0, 0.0 // predicted times, 0 before the first; the line of equal times connects them
	for i, step := range d.ByStep {
		if step.Predicted <= 0 || step.Busy <= 0 {
			continue
		}
		least, greatest = min(cmp.Or(least, step.Predicted), step.Predicted), max(greatest, step.Predicted)
		chart.Points = append(chart.Points, page.Point{X: step.Predicted, Y: step.Busy, Group: groupOf(step.Op),
			Name: pointName(i, &step), Label: fmt.Sprintf("%s (%s): predicted %s, measured %s%s", step.Name, step.Op,
				format.Nanoseconds(step.Predicted), format.Nanoseconds(step.Busy), doubtText(&step))})
	}
	chart.Lines = []page.Line{{Label: "equal", Points: [][2]float64{{least, least}, {greatest, greatest}}}}
	data := &page.Table{Name: "steps",
		Heads: []string{"step", "op", "predicted_ns", "busy_ns", "time_ns", "flops", "bytes"}}
	for _, step := range d.ByStep {
		data.Rows = append(data.Rows, []string{step.Name, step.Op, csvNumber(step.Predicted), csvNumber(step.Busy),
			csvNumber(step.Time), csvNumber(step.flops), csvNumber(step.bytes)})
	}
	return page.Section{Title: "Predicted against measured", Chart: chart, Data: data,
		Note: "Each point is a step, with its number in the table of steps. Steps above the line take longer than the " +
			"cost model predicts." + d.doubtNote()}
}

// rooflineSection shows the arithmetic speed of each step (GFLOP/s) by its arithmetic intensity (operations per byte),
// with the limits of the machine. A step of intensity i has a speed of at most min(i * bandwidth, peak).
func (d *Document) rooflineSection(costProfile *pricing.Profile) page.Section {
	chart := &page.Scatter{X: page.Axis{Title: "operations per byte", Log: true},
		Y: page.Axis{Title: "GFLOP/s", Log: true}}
	var groupOf func(string) int
	chart.Groups, groupOf = d.groups()
	omitted := 0
	least, greatest := 0.0, 0.0 // operations per byte; 0 before the first
	for i, step := range d.ByStep {
		if step.flops <= 0 || step.bytes <= 0 || step.Time <= 0 {
			omitted++
			continue
		}
		intensity := step.flops / step.bytes // in operations per byte
		least, greatest = min(cmp.Or(least, intensity), intensity), max(greatest, intensity)
		chart.Points = append(chart.Points, page.Point{X: intensity, Y: step.flops / step.Time, Group: groupOf(step.Op),
			Name: pointName(i, &step), Label: fmt.Sprintf("%s (%s): %.3g operations per byte, %.3g GFLOP/s%s", step.Name,
				step.Op, intensity, step.flops/step.Time, doubtText(&step))})
	}
	workers := float64(d.Threads)
	peakGFLOPs := workers * costProfile.GFLOPs() // the limit of arithmetic, in GFLOP/s
	// roof returns the line of the limits for a bandwidth of coreGBs per core, over all intensities of the chart.
	roof := func(name string, coreGBs float64) page.Line {
		totalGBs := coreGBs * workers
		ridge := peakGFLOPs / totalGBs // the intensity at which the limits of memory and arithmetic are equal
		first, last := min(cmp.Or(least, 1), ridge), max(greatest, ridge)
		return page.Line{Label: name,
			Points: [][2]float64{{first, first * totalGBs}, {ridge, peakGFLOPs}, {last, peakGFLOPs}}}
	}
	l1GBs := pricing.PSPerNS / costProfile.Memory.Dense.At(machine.L1Bytes) // At returns picoseconds per byte
	chart.Lines = []page.Line{roof("caches", l1GBs), roof("memory", costProfile.GBs())}
	note := fmt.Sprintf("Each point is a step, with its number in the table of steps. The dashed lines are the limits "+
		"of %s in the cost profile: arithmetic (%.4g GFLOP/s, measured with products of matrices), memory (%.4g GB/s) and "+
		"caches.", format.Count(d.Threads, "core"), peakGFLOPs, workers*costProfile.GBs())
	if omitted > 0 {
		note += fmt.Sprintf(" %s without arithmetic or without a known number of bytes are left out.",
			format.Count(omitted, "step"))
	}
	return page.Section{Title: "Roofline", Chart: chart, Note: note + d.doubtNote()}
}

// memorySection shows the memory in use over the time of the traced run.
func memorySection(memory []memoryAt) page.Section {
	chart := &page.StepFunction{X: timeAxis("time in a run", linear),
		Y: page.Axis{Title: "memory", Format: func(v float64) string { return format.Bytes(int(v)) }, Unit: 1 << 10}}
	data := &page.Table{Name: "memory", Heads: []string{"ns", "arena_bytes", "output_bytes"}}
	for _, sample := range memory {
		elapsed := float64(sample.time - memory[0].time)
		total := sample.memory.Arena + sample.memory.Outputs
		chart.Points = append(chart.Points, [2]float64{elapsed, float64(total)})
		if total > 4<<20 {
			chart.Y.Unit = 1 << 20 // grid lines at MiB instead of KiB
		}
		data.Rows = append(data.Rows, []string{csvNumber(elapsed), fmt.Sprint(sample.memory.Arena),
			fmt.Sprint(sample.memory.Outputs)})
	}
	return page.Section{Title: "Memory over time", Chart: chart, Data: data,
		Note: "Bytes of live intermediate values and outputs in one traced run, without inputs and constants."}
}

// tableSections lists the times by op and by step.
func (d *Document) tableSections() []page.Section {
	heads := []string{"calls", "time", "predicted", "busy%", "GB/s", "GFLOP/s", "of a core's peak"}
	right := slices.Repeat([]bool{true}, len(heads)) // page.Table.Right: the columns of numbers
	cells := func(t *timeDoc) []string {
		allCells := t.cells(&d.Profile)
		list := make([]string, 0, len(allCells))
		for i, cell := range allCells {
			if i != workersCell {
				list = append(list, fmt.Sprint(cell))
			}
		}
		return list
	}
	ops := &page.Table{Name: "ops", Heads: append([]string{"op"}, heads...), Right: append([]bool{false}, right...)}
	for i := range d.ByOp {
		ops.Rows = append(ops.Rows, append([]string{d.ByOp[i].Op}, cells(&d.ByOp[i])...))
	}
	steps := &page.Table{Name: "times", Heads: append([]string{"#", "step", "op"}, heads...),
		Right: append([]bool{true, false, false}, right...)}
	isDoubted := d.isDoubted()
	if isDoubted {
		steps.Heads = append(steps.Heads, doubtHead)
	}
	for i := range d.ByStep {
		s := &d.ByStep[i]
		row := append([]string{fmt.Sprint(i + 1), s.Name, s.Op}, cells(&s.timeDoc)...)
		if isDoubted {
			row = append(row, s.Doubt)
		}
		steps.Rows = append(steps.Rows, row)
	}
	return []page.Section{{Title: "Time by op", Table: ops}, {Title: "Time by step", Table: steps}}
}

// csvNumber formats a number for CSV.
func csvNumber(v float64) string { return fmt.Sprintf("%.6g", v) }
