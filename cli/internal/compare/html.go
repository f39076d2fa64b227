package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/page"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/internal/sorted"
)

// writeHTML writes the comparison as an HTML page.
func (c *comparison) writeHTML(w io.Writer) error {
	about, err := page.About(c.commandLine, sorted.Keys(c.files), &c.profile)
	if err != nil {
		return err
	}
	labels := slices.Collect(maps.Values(c.files))
	sorted.Strings(labels)
	html := page.Page{Title: "Strategies for " + strings.Join(labels, ", "), About: about}
	for _, text := range c.verdictTexts() {
		html.Summary = append(html.Summary, text+".")
	}
	if c.haveEqualValues() {
		html.Summary = append(html.Summary, "All strategies give equal values.")
	}
	for _, d := range c.Differences {
		html.Warnings = append(html.Warnings, "different values: "+d)
	}
	if c.Interrupted {
		html.Warnings = append(html.Warnings, "the measurement was interrupted")
	}
	for _, v := range c.Verdicts {
		if v.Noise != "" {
			html.Warnings = append(html.Warnings, v.Label()+": disturbed measurement: "+v.Noise)
		}
	}
	lastPlanned := "" // file and sizes of the last costs section; costs do not depend on threads
	for rows := range c.combinations() {
		html.Sections = append(html.Sections, timesSection(rows))
		if planned := fmt.Sprint(rows[0].File, rows[0].Dims); planned != lastPlanned {
			lastPlanned = planned
			html.Sections = append(html.Sections, costsSection(rows))
		}
	}
	html.Sections = append(html.Sections, predictionSection(c.rows), c.tableSection())
	return html.Write(w)
}

// combinations iterates over the rows of each combination of file, sizes and threads.
func (c *comparison) combinations() func(yield func([]Row) bool) {
	return func(yield func([]Row) bool) {
		for remaining := c.rows; len(remaining) > 0; {
			count := slices.IndexFunc(remaining, func(r Row) bool { return r.Label() != remaining[0].Label() })
			if count < 0 {
				count = len(remaining)
			}
			if !yield(remaining[:count]) {
				return
			}
			remaining = remaining[count:]
		}
	}
}

// valueOrNaN returns an optional number for a chart: NaN for nil.
func valueOrNaN(number *float64) float64 {
	if number == nil {
		return page.Missing()
	}
	return *number
}

// timesSection shows the measured times of the strategies of a combination.
func timesSection(rows []Row) page.Section {
	chart := &page.Intervals{Axis: page.Axis{Title: "median time of a run", Format: format.Nanoseconds},
		Reference: page.Missing()}
	for _, row := range rows {
		text := format.Nanoseconds(valueOrNaN(row.Median))
		switch {
		case row.Median == nil:
			text = "not measured"
		case row.MeasuredAs != "":
			text += ", measured once: same plan as " + row.MeasuredAs
		case row.Significant:
			text += fmt.Sprintf(", %+.1f%%", 100*(*row.Ratio-1))
		}
		if row.RegretSignificant && row.Regret != nil {
			text += fmt.Sprintf(", regret %.1f%%", 100*(*row.Regret))
		}
		chart.Rows = append(chart.Rows, page.Interval{Label: row.Name, Value: valueOrNaN(row.Median),
			Low: valueOrNaN(row.Low), High: valueOrNaN(row.High), Text: text})
	}
	return page.Section{Title: "Measured: " + rows[0].Label(), Chart: chart,
		Note: fmt.Sprintf("Medians of %s with 95%% confidence intervals; with too few runs there is no interval. "+
			"Percentages are the significant differences from %s (p < 0.01); the regret is the significant difference from "+
			"the fastest measured plan.", format.Count(rows[0].Runs, "run"), rows[0].Name)}
}

// costsSection shows the estimated costs of the strategies of a combination, and the lower bound.
func costsSection(rows []Row) page.Section {
	chart := &page.Intervals{Axis: page.Axis{Title: "estimated cost on one core", Format: format.Nanoseconds},
		Reference: page.Missing()}
	note := "The estimated costs of the plans."
	for _, row := range rows {
		text := fmt.Sprintf("%s, %s%s", format.Nanoseconds(row.CostNS),
			format.CountIrregular(row.Copies, "inserted copy", "inserted copies"), sections.PlacesText(row.Places))
		if row.BoundNS != nil {
			chart.Reference, chart.ReferenceName = *row.BoundNS, "lower bound"
			note = "The estimated costs of the plans, their gaps to the proved lower bound on the cost of any plan, and " +
				"their inserted copies."
			text = fmt.Sprintf("%s, gap %.1f%%", text, 100*valueOrNaN(row.Gap))
		}
		chart.Rows = append(chart.Rows, page.Interval{Label: row.Name, Value: row.CostNS, Low: page.Missing(),
			High: page.Missing(), Text: text})
	}
	fileAndSizes, _, _ := strings.Cut(rows[0].Label(), "/threads=")
	return page.Section{Title: "Estimated: " + fileAndSizes, Chart: chart, Note: note}
}

// predictionSection compares estimated costs with measured times.
func predictionSection(rows []Row) page.Section {
	chart := &page.Scatter{
		X: page.Axis{Title: "estimated cost on one core", Format: format.Nanoseconds, Log: true},
		Y: page.Axis{Title: "median time", Format: format.Nanoseconds, Log: true}}
	var threads []int // a group of points each
	for _, row := range rows {
		if !slices.Contains(threads, row.Threads) {
			threads = append(threads, row.Threads)
			chart.Groups = append(chart.Groups, format.Count(row.Threads, "thread"))
		}
	}
	var costs []float64
	for _, row := range rows {
		if row.Median == nil || row.MeasuredAs != "" {
			continue
		}
		costs = append(costs, row.CostNS)
		chart.Points = append(chart.Points, page.Point{X: row.CostNS, Y: *row.Median, Name: row.Name,
			Group: slices.Index(threads, row.Threads),
			Label: fmt.Sprintf("%s, %s: estimated %s, measured %s", row.Label(), row.Name, format.Nanoseconds(row.CostNS),
				format.Nanoseconds(*row.Median))})
	}
	if len(costs) > 0 {
		least, greatest := slices.Min(costs), slices.Max(costs)
		chart.Lines = []page.Line{{Label: "equal", Points: [][2]float64{{least, least}, {greatest, greatest}}}}
	}
	note := "Each point is a measured plan. Estimates are for one core and an otherwise idle machine."
	if len(threads) > 1 {
		note += " The shape of a point shows the number of threads."
	}
	return page.Section{Title: "Estimated against measured", Chart: chart, Note: note}
}

// tableSection has the table of the text output, and the CSV data of all runs.
func (c *comparison) tableSection() page.Section {
	records := c.records()
	return page.Section{Title: "All figures", Table: page.TableOf("figures", c.table()), Note: c.caption() + ".",
		Data: &page.Table{Name: "runs", Heads: records[0], Rows: records[1:]}}
}
