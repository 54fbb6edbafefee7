"""What a user's program may look like: it uses every public name, and mypy knows what it gets."""

import warnings

import firth
from firth.tasks.regress import Regress

training: firth.PretrainOptions = {"steps": 100, "size": "tiny", "vocab": "words/"}
tuning: firth.FinetuneOptions = {"dev": "later.csv", "epochs": 3.0}
reading: firth.PredictOptions = {"long": "slide", "threads": 1}
vectors_of: firth.EmbedOptions = {"combine": "mean", "layers": "-1"}
warnings.simplefilter("error", firth.DataWarning)
warnings.simplefilter("ignore", firth.RunWarning)
warnings.simplefilter("default", firth.FirthWarning)

report: firth.CheckReport = firth.check("tickets.csv", dev="later.csv", missing="none")
files: tuple[firth.CheckedFile, ...] = report.files
findings: tuple[firth.Finding, ...] = report.findings
words: firth.VocabReport = firth.vocab("letters/", "words/", size=8000)
converted: firth.Converted = firth.convert("uncased/", "bert/", case="lower")
vectors_file: firth.WordFile | None = firth.convert("glove.txt", "v/").vectors
near: list[firth.Neighbours] = firth.neighbours("v/", ["tea", "boat"], top=3)
asked_word: firth.AskedWord = near[0].asked[0]
near_word: firth.NearWord = near[0].nearest[0]
queen: firth.Neighbours = firth.analogy("v/", "man", "king", "woman")
alike: firth.Similarity = firth.similarity("v/", "tea", "coffee")
aligned: firth.Aligned = firth.align("v/", "w/", "pairs.tsv", "map/", test="test.tsv")
rotation: firth.Precision = aligned.linear
translated = firth.neighbours("v/", "tea", into="w/", mapping="map/", by="network")
try:
    outcome: firth.Outcome = firth.pretrain(["letters/"], "base/", **training)
except firth.Stopped:
    outcome = firth.pretrain(["letters/"], "base/", resume=True, **training)
tuned: firth.FinetuneResult = firth.finetune("classify", "base/", "tickets.csv", "out/", **tuning)
sheet: firth.Sheet | None = tuned.sheet
decided: list[firth.Decided] = sheet.all if sheet else []
shares: list[firth.Share] = [one.decided for one in decided]
metrics: dict[str, firth.Interval] = tuned.scores

benchmark: firth.GlueReport = firth.glue("glue/", "base/", "report/", tasks="rte,mrpc", seeds=3)
on_task: firth.GlueResult = benchmark.results[0]
cell: firth.GlueCell = on_task.cells[0]
f1: firth.GlueScore | None = benchmark.find("MRPC", "f1")

found: firth.Evaluation = firth.evaluate(["out/", "base/"], "later.csv")
measured: firth.Measured = found.models[0]
confidence: firth.Confidence | None = measured.confidence
amount: firth.Amount | None = measured.text
masked: firth.MaskedAmount | None = measured.masked
word_amount: firth.WordAmount | None = measured.words
sections: tuple[firth.Section, ...] = word_amount.sections if word_amount else ()
bands: tuple[firth.Band, ...] = amount.bands if amount else ()
compared: firth.Compared = found.differences[0]
differences: dict[str, firth.Difference] = compared.metrics
looks: list[firth.Look] = firth.gradients(["gpt/"], "letters.txt")
gradient: firth.Gradient = looks[0].gradient
view: firth.View = firth.view("base/", "a text", "view.html", pair="another", force=True)
live: firth.View = firth.view("base/", "a text", "live.html", with_model=True)
headings: tuple[str, ...] = view.sections
trained: firth.CurvesView = firth.curves(["a.run", "b.run"], "runs.html", force=True)
last_steps: tuple[int, ...] = trained.steps
drawn: firth.ProjectorView = firth.projector("base/", "a.csv", "a.html", words=["tea"], axes="pca")
drawn_word: firth.ProjectedWord = drawn.words[0]
pictures: list[firth.Picture] = firth.examples()
picture: firth.ExampleView = firth.example("bank", "base/", "bank.html", force=True)
printed: list[firth.PrintedNumber] = list(picture.numbers)
agrees: bool | None = printed[0].agrees
good: firth.ReportView = firth.report("out/", "later.csv", "good.html", label="queue", force=True)
f1_again: firth.Interval = good.evaluation.models[0].metrics["f1"]

written: firth.Written = firth.embed("base/", "letters.txt", "vectors.npy", **vectors_of)
vector = next(firth.embed("base/", "letters.txt", **vectors_of)).vectors
embedded: firth.Embedded[firth.Spans] = next(firth.embed("base/", "letters.txt", pool="words"))
spans: firth.Spans = embedded.vectors
predictions: list[firth.Prediction] = list(firth.predict("out/", "later.csv", **reading))
saved: firth.Written = firth.predict("out/", "later.csv", "answers.csv", **reading)
objects = [one.as_json() for one in predictions]

model: firth.Predictor = firth.load("out/", threads=1)
vectors = model.embed(["a text", "another"])
array, coverage = model.embed(["a text"], report=True)
read: firth.Coverage = coverage
attention: list[firth.AttentionMap] = model.attention(["a text"], long="cut")
weights = attention[0].weights
token_vectors = model.embed(["a text"], pool="words")
try:
    answers: list[firth.Answer] = model.predict(["a text"])
except firth.InputError as error:
    complaint: firth.FirthError = error
answer = answers[0]
match answer:
    case firth.Classification(label=label, probabilities=probabilities):
        pass
    case firth.Number(value=value):
        pass
    case firth.NamedSpans(spans=named):
        entities: tuple[firth.FoundSpan, ...] = named
    case firth.QuestionAnswer(answer=said, candidates=likely):
        best: firth.AnswerSpan = likely[0]
    case firth.Filled(blanks=blanks):
        blank: firth.Blank = blanks[0]
        piece: firth.LikelyPiece = blank.choices[0]
    case firth.Translation(translation=translation, candidates=translations):
        candidate: firth.TranslationCandidate = translations[0]
    case firth.BidirectionalLikelihood(forward=ahead, backward=behind):
        both: tuple[float, float] = (ahead, behind)
asked: firth.QuestionAnswer = model.answer("Who?", "Åsa.", top=3)
many: list[firth.QuestionAnswer] = model.answer_all([("Who?", "Åsa.")])
translated_texts: list[firth.Translation] = model.translate(["a text"], beam=2, top=2, align=True)
aligned_words: tuple[firth.AlignedWord, ...] = translated_texts[0].alignment
choice: firth.Choice = model.choose("a text", ["one end", "another"])
likelihoods: list[firth.Likelihood] = model.score(["a text"])
tokens: tuple[firth.TokenLikelihood, ...] = likelihoods[0].pieces
ranking: firth.Ranking = model.rank(["a text", "another"])
rescored: firth.Ranking = model.rank(["a text", "another"], scores=[-1.5, -2.0], weight=0.5)
total: float | None = rescored.candidates[0].total
candidates: tuple[firth.Candidate, ...] = ranking.candidates
generated: list[firth.GeneratedText] = model.write(["Once upon"], tokens=5)
completed: list[firth.Completed] = model.complete(["Once upon"], top=3)
completions: tuple[firth.Completion, ...] = completed[0].completions
record = answer.as_json()
registered = firth.register(Regress)
