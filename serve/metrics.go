package serve

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/graphrun/graphrun/internal/program"
)

// serverMetrics are the metrics of a server. Metrics that Triton also has keep the names of the Triton Inference
// Server (nv_inference_...), so that dashboards for Triton show them.
type serverMetrics struct {
	set       *metrics.Set
	responses sync.Map // of *metrics.PrometheusHistogram by responseKey
}

// responseKey identifies the histogram of the response times of one route and HTTP status code.
type responseKey struct {
	route string
	code  int
}

// modelMetrics are the metrics of one version of a model.
type modelMetrics struct {
	successes, failures *metrics.Counter // numbers of requests
	// The number of rows of all successful runs, and the number of these runs. The quotient is the mean batch size.
	rows, executions *metrics.Counter
	// Total times in microseconds: of successful requests, of these requests in the queue, and of successful runs.
	request, queued, compute *metrics.Counter
}

// newMetrics returns the metrics of a server.
func newMetrics(s *Server) *serverMetrics {
	set := metrics.NewSet()
	set.NewGauge("graphrun_queue_length", func() float64 { return float64(s.waiting.Load()) })
	return &serverMetrics{set: set}
}

// families describes the metrics: the name, the type and the help text of each.
var families = map[string][2]string{
	"graphrun_plans_total":                   {"counter", "Number of plans that were made for a model."},
	"graphrun_bindings_total":                {"counter", "Number of sizes for which a plan was evaluated, by its own sizes and guards."},
	"graphrun_queue_length":                  {"gauge", "Number of waiting requests."},
	"http_server_request_duration_seconds":   {"histogram", "Duration of HTTP requests."},
	"nv_inference_request_success":           {"counter", "Number of successful inference requests."},
	"nv_inference_request_failure":           {"counter", "Number of failed inference requests."},
	"nv_inference_count":                     {"counter", "Number of rows of successful runs."},
	"nv_inference_exec_count":                {"counter", "Number of successful runs."},
	"nv_inference_request_duration_us":       {"counter", "Total duration of successful inference requests."},
	"nv_inference_queue_duration_us":         {"counter", "Total time of successful inference requests in the queue."},
	"nv_inference_compute_infer_duration_us": {"counter", "Total duration of successful runs."},
}

// addPlans adds the metrics of a model's plans to text, by family.
func (m *model) addPlans(text map[string]*bytes.Buffer) {
	usage := m.program.Internal().Usage()
	labels := fmt.Sprintf(`model="%s",version="%s"`, labelEscaper.Replace(m.name), labelEscaper.Replace(m.version))
	fmt.Fprintf(text["graphrun_plans_total"], "graphrun_plans_total{%s} %d\n", labels, usage.Plans)
	indices := map[string]int{} // by anchor: number of its classes so far
	for _, class := range usage.Classes {
		anchor := program.SizesText(class.Anchor)
		fmt.Fprintf(text["graphrun_bindings_total"], "graphrun_bindings_total{%s,anchor=\"%s\",class=\"%d\",guards=\"%s\"} %d\n",
			labels, labelEscaper.Replace(anchor), indices[anchor], labelEscaper.Replace(cut(strings.Join(class.Guards, ", "))),
			class.Bindings)
		indices[anchor]++
	}
}

// maxGuardsText is the maximum length of the guards in a label, in bytes. inspect.UsageOf returns all guards.
const maxGuardsText = 200

// cut cuts a text.
func cut(text string) string {
	if len(text) <= maxGuardsText {
		return text
	}
	return strings.ToValidUTF8(text[:maxGuardsText-3], "") + "..."
}

// write writes the metrics in the text format of Prometheus, each family after its help text and type. models are the
// loaded models, by name.
func (s *serverMetrics) write(w io.Writer, models map[string][]*model) {
	plans := map[string]*bytes.Buffer{"graphrun_bindings_total": {}, "graphrun_plans_total": {}}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		for _, m := range models[name] {
			m.addPlans(plans)
		}
	}
	var text bytes.Buffer
	for _, family := range slices.Sorted(maps.Keys(plans)) {
		text.Write(plans[family].Bytes())
	}
	s.set.WritePrometheus(&text)
	last := ""
	for line := range bytes.Lines(text.Bytes()) {
		name := string(line[:max(bytes.IndexAny(line, "{ "), 0)])
		for _, suffix := range []string{"_bucket", "_sum", "_count"} { // of histograms
			if family := strings.TrimSuffix(name, suffix); families[family][0] == "histogram" {
				name = family
			}
		}
		if name != last {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, families[name][1], families[name][0])
			last = name
		}
		_, _ = w.Write(line)
	}
}

// labelEscaper escapes the values of labels in the text format of Prometheus, which has no other escape sequences.
var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// ofModel returns the metrics of a version of a model. A reloaded model continues the metrics of its predecessor.
func (s *serverMetrics) ofModel(name, version string) *modelMetrics {
	counter := func(metric string) *metrics.Counter {
		return s.set.GetOrCreateCounter(fmt.Sprintf(`%s{model="%s",version="%s"}`, metric, labelEscaper.Replace(name), version))
	}
	return &modelMetrics{
		successes:  counter("nv_inference_request_success"),
		failures:   counter("nv_inference_request_failure"),
		rows:       counter("nv_inference_count"),
		executions: counter("nv_inference_exec_count"),
		request:    counter("nv_inference_request_duration_us"),
		queued:     counter("nv_inference_queue_duration_us"),
		compute:    counter("nv_inference_compute_infer_duration_us"),
	}
}

// recordRun records a successful run of some rows with its duration.
func (m *modelMetrics) recordRun(rows int, duration time.Duration) {
	m.rows.Add(rows)
	m.executions.Inc()
	m.compute.Add(int(duration.Microseconds()))
}

// recordResponse records a response of the server with its route and its HTTP status code.
func (s *serverMetrics) recordResponse(route string, code int, duration time.Duration) {
	key := responseKey{route, code}
	histogram, ok := s.responses.Load(key)
	if !ok {
		histogram = s.set.GetOrCreatePrometheusHistogram(fmt.Sprintf(
			"http_server_request_duration_seconds{http_route=%q,http_response_status_code=\"%d\"}", route, code))
		s.responses.Store(key, histogram)
	}
	histogram.(*metrics.PrometheusHistogram).Update(duration.Seconds())
}
