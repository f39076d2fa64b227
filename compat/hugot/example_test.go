package hugot_test

import (
	"fmt"

	"github.com/knights-analytics/hugot/pipelines"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/compat/hugot"
)

// Embeddings: a vector for each text. The product of two vectors of length 1 is their similarity.
func Example_embeddings() {
	session := hugot.NewSession(graphrun.Options{})
	defer session.Destroy()
	pipeline, err := hugot.NewPipeline(session, hugot.FeatureExtractionConfig{
		ModelPath: "testdata/embeddings",
		Name:      "embeddings",
		Options:   []hugot.FeatureExtractionOption{pipelines.WithNormalization()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := pipeline.RunPipeline([]string{"this film is great", "a lovely book", "it was awful"})
	if err != nil {
		fmt.Println(err)
		return
	}
	e := result.Embeddings
	for i := range e {
		similarity := 0.0
		for k := range e[i] {
			similarity += float64(e[0][k] * e[i][k])
		}
		fmt.Printf("%d numbers, %.2f\n", len(e[i]), similarity)
	}
	// Output:
	// 16 numbers, 1.00
	// 16 numbers, 0.99
	// 16 numbers, -0.97
}

// Classification: a label for each text. The labels are those of config.json.
func Example_classification() {
	session := hugot.NewSession(graphrun.Options{})
	defer session.Destroy()
	pipeline, err := hugot.NewPipeline(session, hugot.TextClassificationConfig{
		ModelPath: "testdata/classification",
		Name:      "sentiment",
		Options:   []hugot.TextClassificationOption{pipelines.WithSoftmax()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := pipeline.RunPipeline([]string{"This film is great!", "The book was awful."})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, labels := range result.ClassificationOutputs {
		fmt.Printf("%s %.2f\n", labels[0].Label, labels[0].Score)
	}
	// Output:
	// POSITIVE 1.00
	// NEGATIVE 1.00
}

// Token classification: the names in a text, with their positions.
func Example_tokenClassification() {
	session := hugot.NewSession(graphrun.Options{})
	defer session.Destroy()
	pipeline, err := hugot.NewPipeline(session, hugot.TokenClassificationConfig{
		ModelPath: "testdata/tokens",
		Name:      "names",
		Options:   []hugot.TokenClassificationOption{pipelines.WithSimpleAggregation()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := pipeline.RunPipeline([]string{"Anna lives in Paris, David in Rome"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, entity := range result.Entities[0] {
		fmt.Printf("%s %s %.2f %d-%d\n", entity.Entity, entity.Word, entity.Score, entity.Start, entity.End)
	}
	// Output:
	// PER anna 1.00 0-4
	// LOC paris 1.00 14-19
	// PER david 1.00 21-26
	// LOC rome 0.98 30-34
}
