// The tasks, each defined in the file of its name.
#pragma once

namespace spillway {

class Task;

const Task* CausalLm();
const Task* Seq2Seq();
const Task* Transcribe();
const Task* ClassifyTexts();
const Task* ClassifyWords();
const Task* QuestionAnswering();
const Task* MaskedLm();
const Task* ClassifyPictures();

}  // namespace spillway
