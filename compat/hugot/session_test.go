package hugot_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	hf "github.com/knights-analytics/hugot"
	"github.com/knights-analytics/hugot/backends"
	"github.com/knights-analytics/hugot/pipelines"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/compat/hugot"
)

var texts = []string{
	"Anna saw a lovely film in Paris!",
	"It was awful.",
	"the unbelievable movie of David and Carla, not boring in Rome, is a great book",
	"boring words: qwerty",
	"",
	strings.Repeat("very ", 50) + "bad", // longer than the model's positions
}

func sessions(t *testing.T) (*hugot.Session, *hf.Session) {
	t.Helper()
	session := hugot.NewSession(graphrun.Options{})
	reference, err := hf.NewGoSession()
	fail(t, err)
	t.Cleanup(func() {
		fail(t, session.Destroy())
		fail(t, reference.Destroy())
	})
	return session, reference
}

func fail(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair makes the same pipeline on graphrun and on hugot's Go backend.
func pair[T backends.Pipeline](t *testing.T, folder string, options ...backends.PipelineOption[T]) (T, T) {
	t.Helper()
	session, reference := sessions(t)
	config := backends.PipelineConfig[T]{ModelPath: folder, Name: folder, Options: options}
	p, err := hugot.NewPipeline(session, config)
	fail(t, err)
	q, err := hf.NewPipeline(reference, config)
	fail(t, err)
	return p, q
}

// compare runs both pipelines on batches of the texts, and compares everything that they return.
func compare[T backends.Pipeline](t *testing.T, p, q T, texts []string) {
	t.Helper()
	for size := 1; size <= len(texts); size++ {
		for i := 0; i+size <= len(texts); i += size {
			got, err := p.Run(texts[i : i+size])
			fail(t, err)
			want, err := q.Run(texts[i : i+size])
			fail(t, err)
			if err := differ(reflect.ValueOf(got.GetOutput()), reflect.ValueOf(want.GetOutput())); err != nil {
				t.Errorf("texts %d to %d: %v\ngot  %v\nwant %v", i, i+size-1, err, got.GetOutput(), want.GetOutput())
			}
		}
	}
}

// differ compares results: numbers with a tolerance, everything else exactly.
func differ(got, want reflect.Value) error {
	if got.IsValid() != want.IsValid() || got.IsValid() && got.Type() != want.Type() {
		return fmt.Errorf("%v instead of %v", got, want)
	}
	switch got.Kind() {
	case reflect.Float32, reflect.Float64:
		if d := math.Abs(got.Float() - want.Float()); !(d < 1e-5) {
			return fmt.Errorf("%v instead of %v", got, want)
		}
	case reflect.Slice:
		if got.Len() != want.Len() {
			return fmt.Errorf("length %d instead of %d", got.Len(), want.Len())
		}
		for i := range got.Len() {
			if err := differ(got.Index(i), want.Index(i)); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case reflect.Struct:
		for i := range got.NumField() {
			if err := differ(got.Field(i), want.Field(i)); err != nil {
				return fmt.Errorf("%s: %w", got.Type().Field(i).Name, err)
			}
		}
	case reflect.Interface:
		return differ(got.Elem(), want.Elem())
	default:
		if !got.Equal(want) {
			return fmt.Errorf("%v instead of %v", got, want)
		}
	}
	return nil
}

func TestFeatureExtraction(t *testing.T) {
	p, q := pair(t, "testdata/embeddings", pipelines.WithNormalization())
	compare(t, p, q, texts)
}

func TestTextClassification(t *testing.T) {
	p, q := pair(t, "testdata/classification", pipelines.WithSoftmax(), pipelines.WithMultiLabel())
	compare(t, p, q, texts)
}

func TestTokenClassification(t *testing.T) {
	p, q := pair(t, "testdata/tokens", pipelines.WithSimpleAggregation())
	compare(t, p, q, texts)
	p, q = pair(t, "testdata/tokens", pipelines.WithoutAggregation(), pipelines.WithIgnoreLabels([]string{"?"}))
	compare(t, p, q, texts)
}

// Goroutines share a pipeline, and meet new shapes at the same time.
func TestGoroutines(t *testing.T) {
	p, _ := pair[*pipelines.FeatureExtractionPipeline](t, "testdata/embeddings")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range texts {
				one, err := p.RunPipeline(texts[i : i+1])
				if err != nil || len(one.Embeddings) != 1 || len(one.Embeddings[0]) != 16 {
					t.Errorf("text %d: %v, %v", i, one, err)
				}
			}
		})
	}
	all.Wait()
}

// Pipelines of a session share a model by its path.
func TestSharedModel(t *testing.T) {
	session, _ := sessions(t)
	config := hugot.TextClassificationConfig{ModelPath: "testdata/classification", Name: "a"}
	a, err := hugot.NewPipeline(session, config)
	fail(t, err)
	config.Name = "b"
	b, err := hugot.NewPipeline(session, config)
	fail(t, err)
	if a.Model != b.Model {
		t.Error("two models")
	}
	if _, err := hugot.NewPipeline(session, config); err == nil || !strings.Contains(err.Error(), "pipeline b") {
		t.Errorf("a second pipeline b: %v", err)
	}
}

func TestErrors(t *testing.T) {
	folder := func(change, content string) string {
		dir := t.TempDir()
		for _, name := range []string{"model.onnx", "config.json", "tokenizer.json", "special_tokens_map.json"} {
			data, err := os.ReadFile(filepath.Join("testdata/classification", name))
			fail(t, err)
			if name == change {
				data = []byte(content)
			}
			fail(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		}
		return dir
	}
	for _, c := range []struct{ path, name, want string }{
		{"testdata/classification", "", "a name for the pipeline"},
		{"testdata/absent", "p", "testdata/absent"},
		{folder("model.onnx", "x"), "p", "model.onnx"},
		{folder("config.json", `{"id2label": {"a": "b"}}`), "p", "config.json: "},
		{folder("config.json", `{"eos_token_id": ["a"]}`), "p", "eos_token_id"},
		{folder("config.json", `{}`), "p", "id2label"},
		{folder("special_tokens_map.json", `{"sep_token": 1}`), "p", "sep_token"},
	} {
		session, _ := sessions(t)
		config := hugot.TextClassificationConfig{ModelPath: c.path, Name: c.name}
		if _, err := hugot.NewPipeline(session, config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v instead of %q", c.path, err, c.want)
		}
	}
	session, _ := sessions(t)
	_, err := hugot.NewPipeline(session, hf.TextGenerationConfig{ModelPath: "testdata/tokens", Name: "p"})
	if err == nil || !strings.Contains(err.Error(), "text generation") {
		t.Error(err)
	}
	fail(t, session.Destroy())
	if _, err := hugot.NewPipeline(session, hugot.FeatureExtractionConfig{Name: "p"}); err == nil {
		t.Error("a pipeline of a destroyed session")
	}
}

// The page about text shows the examples.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/text.md")
	fail(t, err)
	source, err := os.ReadFile("example_test.go")
	fail(t, err)
	functions := strings.Split(string(source), "\nfunc Example_")[1:]
	if len(functions) != 3 {
		t.Errorf("%d examples instead of 3", len(functions))
	}
	for _, function := range functions {
		name, body, _ := strings.Cut(function, "() {\n")
		body, _, _ = strings.Cut(body, "\n}\n")
		body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
		if !strings.Contains(string(page), "```go"+body+"\n```") {
			t.Errorf("docs/text.md does not have the text of Example_%s", name)
		}
	}
}
