package onnx

import (
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/ml"
	"github.com/graphrun/graphrun/onnx/internal/operators"
)

// domains has the converters by domain and operator name.
var domains = map[string]map[string]convert.Converter{"": operators.Standard, microsoftDomain: operators.Microsoft,
	mlDomain: ml.Table}

// microsoftDomain is the domain of the operators that ONNX Runtime adds to the standard.
const microsoftDomain = "com.microsoft"

// mlDomain is the domain of classical machine learning: trees, linear models, support vector machines, encoders.
const mlDomain = "ai.onnx.ml"

// insteadOf tells what to do in place of operators that are loops with a model as their body. In a graph, such a loop
// could not tell its caller about a token before the last one is found.
var insteadOf = map[string]string{
	"com.microsoft.BeamSearch": generationInGo, "com.microsoft.GreedySearch": generationInGo,
	"com.microsoft.Sampling": generationInGo, "com.microsoft.WhisperBeamSearch": generationInGo,
}

const generationInGo = "run the decoder, a graph of its own, in a loop in Go: see examples/decode"

// stringOperators has the operators that accept strings. In the graph, strings are int64 codes ([convert.Table]).
var stringOperators = map[string]bool{
	// All int64 results are codes of strings.
	"Identity": true, "Reshape": true, "Flatten": true,
	"Squeeze": true, "Unsqueeze": true, "Transpose": true, "Expand": true, "Tile": true,
	"Concat": true, "Split": true, "Slice": true, "Gather": true, "GatherElements": true,
	"GatherND": true, "Compress": true, "Where": true, "ReverseSequence": true, "DepthToSpace": true,
	"SpaceToDepth": true, "StringConcat": true, "StringNormalizer": true, "ai.onnx.ml.ArrayFeatureExtractor": true,
	// The int64 results are numbers, or the converter marks the results that are codes.
	"If": false, "Loop": false, "Equal": false, "Shape": false, "Size": false,
	"Cast": false, "CastLike": false, "StringSplit": false, "RegexFullMatch": false, "TfIdfVectorizer": false,
	"ai.onnx.ml.LabelEncoder":   false,
	"ai.onnx.ml.CategoryMapper": false, "ai.onnx.ml.OneHotEncoder": false, "ai.onnx.ml.DictVectorizer": false,
	"ai.onnx.ml.CastMap": false}
