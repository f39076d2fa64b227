// Package hugot runs the pipelines of github.com/knights-analytics/hugot on graphrun: embeddings, classification of
// texts, tokens and images, and the others that hugot has for its Go backend. Pipelines, tokenizers and options are
// hugot's own. Only the model runs elsewhere, without cgo and without a shared library. A program that uses hugot's Go
// backend changes the import path and the constructor of the session:
//
//	session := hugot.NewSession(graphrun.Options{}) // instead of hugot.NewGoSession()
//	pipeline, err := hugot.NewPipeline(session, hugot.FeatureExtractionConfig{ModelPath: "folder", Name: "embed"})
//	result, err := pipeline.RunPipeline([]string{"a text", "another one"})
package hugot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	hf "github.com/knights-analytics/hugot"
	"github.com/knights-analytics/hugot/backends"
	"github.com/knights-analytics/hugot/options"
	"github.com/knights-analytics/hugot/util/fileutil"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
)

// Configurations of pipelines and their options, as in hugot.
type (
	FeatureExtractionConfig      = hf.FeatureExtractionConfig
	FeatureExtractionOption      = hf.FeatureExtractionOption
	TextClassificationConfig     = hf.TextClassificationConfig
	TextClassificationOption     = hf.TextClassificationOption
	TokenClassificationConfig    = hf.TokenClassificationConfig
	TokenClassificationOption    = hf.TokenClassificationOption
	ZeroShotClassificationConfig = hf.ZeroShotClassificationConfig
	ZeroShotClassificationOption = hf.ZeroShotClassificationOption
	CrossEncoderConfig           = hf.CrossEncoderConfig
	CrossEncoderOption           = hf.CrossEncoderOption
	ImageClassificationConfig    = hf.ImageClassificationConfig
	ImageClassificationOption    = hf.ImageClassificationOption
	ObjectDetectionConfig        = hf.ObjectDetectionConfig
	ObjectDetectionOption        = hf.ObjectDetectionOption
)

// Session holds models, which its pipelines share. It is used by one goroutine at a time; its pipelines by several.
type Session struct {
	options graphrun.Options
	models  map[string]*backends.Model
}

// NewSession returns a session whose models are compiled with the given options. The zero Options are good defaults.
func NewSession(o graphrun.Options) *Session {
	return &Session{options: o, models: map[string]*backends.Model{}}
}

// NewPipeline returns a pipeline of hugot for the model in the folder ModelPath: the file OnnxFilename, or the only
// file whose name ends with .onnx. The folder has config.json, tokenizer.json and special_tokens_map.json. The name of
// the pipeline must be new for the model. Pipelines that generate text are an error.
func NewPipeline[T backends.Pipeline](s *Session, config backends.PipelineConfig[T]) (T, error) {
	var none T
	switch {
	case s == nil || s.models == nil:
		return none, errors.New("hugot: the session is nil or destroyed")
	case any(none) == nil:
		return none, errors.New("hugot: the type of the pipeline is not one of package pipelines")
	case none.IsGenerative():
		return none, errors.New("hugot: text generation is absent; see examples/decode of graphrun")
	case config.Name == "":
		return none, errors.New("hugot: a name for the pipeline is required")
	}
	id := config.ModelPath + ":" + config.OnnxFilename
	model := s.models[id]
	if model == nil {
		var err error
		if model, err = load(config.ModelPath, config.OnnxFilename, s.options); err != nil {
			return none, fmt.Errorf("hugot: model %s: %w", config.ModelPath, err)
		}
		model.ID = id
		s.models[id] = model
	}
	if model.Pipelines[config.Name] != nil {
		return none, fmt.Errorf("hugot: pipeline %s has already been initialised", config.Name)
	}
	pipeline, _, err := hf.InitializePipeline(none, config, goOptions(), model)
	return pipeline, err
}

// Destroy ends the use of the session and of its pipelines. Memory belongs to the garbage collector: a program that
// forgets Destroy has no leak.
func (s *Session) Destroy() error {
	if s == nil {
		return nil
	}
	var err error
	for _, model := range s.models {
		err = errors.Join(err, model.Destroy())
	}
	s.models = nil
	return err
}

// goOptions are the options by which hugot selects its Go tokenizer, and the calls of the executor of a model.
func goOptions() *options.Options {
	o := options.Defaults()
	o.Backend = "GO"
	return o
}

// load reads and compiles a model and its tokenizer.
func load(path, file string, o graphrun.Options) (*backends.Model, error) {
	model := &backends.Model{Path: path, OnnxFilename: file, Pipelines: map[string]backends.Pipeline{}}
	if err := backends.LoadOnnxModelBytes(model); err != nil {
		return nil, err
	}
	if err := configure(model); err != nil {
		return nil, err
	}
	// Weights in other files are beside the model.
	loader := graphrun.Loader{FS: os.DirFS(path)}
	g, err := loader.Read(context.Background(), bytes.NewReader(model.OnnxBytes), "model.onnx")
	if err != nil {
		return nil, err
	}
	program, err := graphrun.Compile(context.Background(), g, o)
	if err != nil {
		return nil, err
	}
	model.OnnxBytes = nil
	model.InputsMeta, model.OutputsMeta = infoOf(program.Inputs()), infoOf(program.Outputs())
	if model.GoMLXModel, err = executor(program); err != nil {
		return nil, err
	}
	if err := backends.LoadTokenizer(model, goOptions()); err != nil {
		return nil, err
	}
	model.Destroy = func() error {
		model.GoMLXModel.Destroy()
		if model.Tokenizer == nil { // models of images
			return nil
		}
		return model.Tokenizer.Destroy()
	}
	return model, nil
}

// infoOf describes ports in hugot's terms. Inputs with a default are left out.
func infoOf(ports []graph.Port) []backends.InputOutputInfo {
	var info []backends.InputOutputInfo
	for _, port := range ports {
		if port.HasDefault {
			continue
		}
		shape := backends.Shape{}
		for _, n := range port.Shape {
			shape = append(shape, int64(n))
		}
		info = append(info, backends.InputOutputInfo{Name: port.Name, Dimensions: shape})
	}
	return info
}

// configure reads the fields that hugot reads from config.json and special_tokens_map.json, if there are such files.
func configure(model *backends.Model) error {
	var config struct {
		Positions  int            `json:"max_position_embeddings"`
		Pad        int64          `json:"pad_token_id"`
		Labels     map[int]string `json:"id2label"`
		End        any            `json:"eos_token_id"`
		Layers     int            `json:"num_hidden_layers"`
		Heads      int            `json:"num_key_value_heads"`
		HeadDim    int            `json:"head_dim"`
		Vocabulary int            `json:"vocab_size"`
	}
	if err := readJSON(model, "config.json", &config); err != nil {
		return err
	}
	model.MaxPositionEmbeddings, model.PadToken, model.IDLabelMap = config.Positions, config.Pad, config.Labels
	model.NumHiddenLayers, model.NumKeyValueHeads = config.Layers, config.Heads
	model.HeadDim, model.VocabSize = config.HeadDim, config.Vocabulary
	ends, isList := config.End.([]any)
	if !isList && config.End != nil {
		ends = []any{config.End}
	}
	for _, end := range ends {
		token, isNumber := end.(float64)
		if !isNumber {
			return errors.New("config.json: eos_token_id must be a number or a list of numbers")
		}
		if model.EosTokenIDs == nil {
			model.EosTokenIDs = map[int64]bool{}
		}
		model.EosTokenIDs[int64(token)] = true
	}
	var tokens struct {
		Separator json.RawMessage `json:"sep_token"`
	}
	if err := readJSON(model, "special_tokens_map.json", &tokens); err != nil || tokens.Separator == nil {
		return err
	}
	var token struct{ Content string }
	if json.Unmarshal(tokens.Separator, &token.Content) != nil && json.Unmarshal(tokens.Separator, &token) != nil {
		return errors.New("special_tokens_map.json: sep_token must be a string or have a content")
	}
	model.SeparatorToken = token.Content
	return nil
}

// readJSON reads a file of the folder of a model, if it exists.
func readJSON(model *backends.Model, name string, v any) error {
	path := fileutil.PathJoinSafe(model.Path, name)
	if exists, err := fileutil.FileExists(path); err != nil || !exists {
		return err
	}
	data, err := fileutil.ReadFileBytes(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
