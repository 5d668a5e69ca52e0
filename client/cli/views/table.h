// Aligned columns of text.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gemmd::cli {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: one cell a column.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Titles, unless all are empty, and rows; columns two spaces apart, no trailing space.
  std::string Render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gemmd::cli
